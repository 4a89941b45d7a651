package process

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// call is one accepted task on its way through the pool. Pool.mu guards every field
// from state on. result and err are written once, by the goroutine that moved the state
// to ended, before the outcome is delivered.
type call struct {
	task    bullpen.Task
	timeout time.Duration // run time, 0 for none
	output  int           // largest result
	// redelivered: an earlier attempt of the job was cut off; see alone.
	redelivered bool
	memory      int64   // with Exec: memory bound of its process, 0 for none
	cpu         float64 // with Exec: CPU bound of its process, 0 for none

	state      lifecycle.Machine[taskState]
	next, prev *call // neighbours in a list
	in         *list // the list that contains it, or nil
	worker     *worker
	number     uint32 // of the task at worker
	replays    int    // workers that died before it was sent to them
	returns    int    // workers that gave it back
	recalls    int    // times it was taken back from behind another task
	deaths     int    // workers that ended with it assigned, without having reported its start
	asked      bool   // whether its worker was asked to end it

	// Times since the pool's epoch.
	accepted int64
	sent     int64
	started  int64 // when it became the oldest task of its worker: its handler began no earlier
	askedAt  int64

	cause error // why it must end early, or nil

	result bullpen.Result
	err    error

	// How the outcome is delivered; exactly one is set.
	ready chan struct{} // Execute: one element per use
	done  func(bullpen.Result, error)
	batch *batch
	index int // in batch

	item    []byte   // its part in the input of a shared call, with Config.Batch
	members *members // of a shared call, else nil

	said   *said   // output that its observer has not received yet; nil without any
	chunks *chunks // pieces of its result; nil without any

	unwatch func() bool // ends the watch over the caller's context, or nil
}

// batch is the state that the calls of one ExecuteAll share.
type batch struct {
	ended []bullpen.Ended
	left  atomic.Int64
	ready chan struct{}
}

// calls keeps calls of Execute and ExecuteAll for reuse. A call is put back when
// nothing else refers to it.
var calls = sync.Pool{New: func() any { return &call{ready: make(chan struct{}, 1)} }}

func newCall() *call {
	c := calls.Get().(*call)
	c.state.Init(&taskStates, taskWaiting)
	return c
}

func (c *call) recycle() {
	*c = call{ready: c.ready}
	calls.Put(c)
}

// weight returns how many bytes c takes in the pipe to its worker. A payload for the
// arena does not count; without an arena such a task is sent alone anyway.
func (c *call) weight() int {
	if n := len(c.task.Payload); n < protocol.ArenaMin {
		return n + protocol.HeaderSize
	}
	return 0
}

// reason returns the outcome of a task that ran and was ended early because of cause.
func reason(cause error) bullpen.Outcome {
	switch {
	case isDeadline(cause):
		return bullpen.Timeout
	case errors.Is(cause, wire.ErrLong):
		return bullpen.Output
	default:
		return bullpen.Canceled
	}
}

func isDeadline(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, errRunTime)
}

// list is a doubly linked queue of calls, so that a call can leave from the middle.
// Pool.mu guards it.
type list struct {
	first, last *call
	n           int
}

func (l *list) pushBack(c *call) {
	c.in, c.prev, c.next = l, l.last, nil
	if l.last != nil {
		l.last.next = c
	} else {
		l.first = c
	}
	l.last = c
	l.n++
}

func (l *list) pushFront(c *call) {
	c.in, c.prev, c.next = l, nil, l.first
	if l.first != nil {
		l.first.prev = c
	} else {
		l.last = c
	}
	l.first = c
	l.n++
}

func (l *list) remove(c *call) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		l.last = c.prev
	}
	c.in, c.prev, c.next = nil, nil, nil
	l.n--
}
