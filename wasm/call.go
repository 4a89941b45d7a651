package wasm

import (
	"context"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// call is one accepted task on its way through the pool. Pool.mu guards the fields from
// state on.
type call struct {
	task    bullpen.Task
	ctx     context.Context //nolint:containedctx // whose end cancels the task
	memory  int64           // bound of the memory
	output  int             // largest result
	timeout time.Duration   // run time, 0 for none
	done    func(bullpen.Result, error)
	unwatch func() bool // ends the watch over ctx, or nil

	state      lifecycle.Machine[taskState]
	next, prev *call
	in         *list // the list that contains it, or nil
	instance   *instance
	number     uint64 // of the task at its instance
	cause      error  // why it must end, or nil
	accepted   int64  // time since the pool's epoch

	here bool // the caller runs the task itself; set before anyone else knows that it runs
	// place gets nil when a blocked call has got a place, or the reason why it gets none. It
	// belongs to one call only: the task may have ended, and the call be used again, before
	// the caller looks.
	place chan error
	// ready gets a value when a call without done has its outcome.
	ready  chan struct{}
	result bullpen.Result
	err    error
}

// calls keeps calls for reuse. A call is put back when nothing else refers to it.
var calls = sync.Pool{New: func() any { return &call{ready: make(chan struct{}, 1)} }}

func newCall() *call {
	c := calls.Get().(*call)
	c.state.Init(&taskStates, taskNew)
	return c
}

// forget ends the watch over the caller's context and recycles c, unless the watch has just
// found that context ended and may still refer to c.
func (c *call) forget() {
	if c.unwatch != nil && !c.unwatch() {
		return
	}
	*c = call{ready: c.ready}
	calls.Put(c)
}

// list is a doubly linked queue of calls, so that a call can leave from the middle. Pool.mu
// guards it.
type list struct {
	first, last *call
	n           int
}

func (l *list) push(c *call) {
	c.in, c.prev, c.next = l, l.last, nil
	if l.last != nil {
		l.last.next = c
	} else {
		l.first = c
	}
	l.last = c
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

// pop removes and returns the first call, or nil.
func (l *list) pop() *call {
	c := l.first
	if c != nil {
		l.remove(c)
	}
	return c
}
