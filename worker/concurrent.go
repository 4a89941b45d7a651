package worker

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/bullpen-run/bullpen/protocol"
)

// concurrent is the loop of a worker that runs several tasks at a time. One goroutine reads.
// Each slot has a goroutine that runs waiting tasks, in the order of their numbers.
type concurrent struct {
	*session

	mu      sync.Mutex
	changed sync.Cond // a task has arrived, or the session ends; its lock is mu
	// waiting are the tasks that have not started, in their order; guarded by mu.
	waiting []*job
	open    map[uint32]*taskContext // waiting and running; guarded by mu
	ending  bool                    // no more tasks will come; guarded by mu
	left    int                     // slots that have not ended; guarded by mu
	idle    chan struct{}           // closed when left is 0

	// draining means that tasks are returned. Only the reader uses it.
	draining bool
}

func newConcurrent(s *session) *concurrent {
	l := &concurrent{session: s, open: make(map[uint32]*taskContext), left: s.concurrency, idle: make(chan struct{})}
	l.changed.L = &l.mu
	return l
}

// serve reads until the session ends. After end of file or DRAIN it waits for the running
// tasks; after DRAIN it also keeps reading, for CANCEL.
func (l *concurrent) serve() error {
	for k := range l.concurrency {
		go l.carry(k) // ends with the session; serve waits for idle
	}
	read := make(chan error, 1)
	// Ends at end of file or with an error. After DRAIN and after a write error, it may
	// block in its read until the process ends.
	go func() { read <- l.loop() }()
	for {
		select {
		case err := <-read:
			if !errors.Is(err, io.EOF) {
				l.end(true)
				_ = l.answers.finish() // reports finished tasks; the first error counts more
				return err
			}
			l.end(false)
			read = nil
		case <-l.idle:
			return l.answers.finish()
		case <-l.answers.broken:
			l.end(true)
			return l.answers.flush()
		}
	}
}

// end makes the slots end when no more tasks wait. With drop, waiting tasks are dropped.
func (l *concurrent) end(drop bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	if drop {
		l.waiting = nil
	}
	l.changed.Broadcast()
}

// drain returns the waiting tasks, and ends the slots.
func (l *concurrent) drain() error {
	l.draining = true
	l.mu.Lock()
	back := l.waiting
	l.waiting, l.ending = nil, true
	for _, j := range back {
		delete(l.open, j.ctx.id)
	}
	l.changed.Broadcast()
	l.mu.Unlock()
	for _, j := range back {
		l.answers.add(protocol.Header{Kind: protocol.Returned, ID: j.ctx.id}, nil)
	}
	return l.answers.flush()
}

// loop returns io.EOF at the end of the channel.
func (l *concurrent) loop() error {
	for {
		for {
			h, body, ok, err := l.frames.next()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if err := l.frame(h, body); err != nil {
				return err
			}
		}
		if err := l.answers.flush(); err != nil {
			return err
		}
		if err := l.frames.fill(); err != nil {
			return err
		}
	}
}

func (l *concurrent) frame(h protocol.Header, body []byte) error {
	if err := protocol.CheckToWorker(h, body); err != nil {
		return err
	}
	if h.Kind != protocol.Task {
		drain, err := l.control(h, l.cancel)
		if drain {
			return l.drain()
		}
		return err
	}
	if l.draining {
		l.answers.add(protocol.Header{Kind: protocol.Returned, ID: h.ID}, nil)
		return nil
	}
	// The buffer is reused while the task runs; the arena is not.
	if h.Flags&protocol.Arena == 0 {
		body = bytes.Clone(body)
	}
	j := new(job)
	if err := l.read(j, h, body, new(taskContext)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, j)
	l.open[h.ID] = j.ctx
	l.changed.Signal()
	return nil
}

// cancel asks a task to end. A waiting task still reaches its handler, whose context has
// then ended.
func (l *concurrent) cancel(id uint32, why taskState) {
	l.mu.Lock()
	c := l.open[id]
	l.mu.Unlock()
	if c != nil {
		c.stop(why)
	}
}

// carry runs slot k. If a handler ends the goroutine, a new one replaces it.
func (l *concurrent) carry(k int) {
	finished := false
	defer func() {
		if !finished {
			go l.carry(k) // replaces this goroutine; serve waits for left to be 0
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.left--; l.left == 0 {
			close(l.idle)
		}
	}()
	for {
		j, starts := l.take(k)
		switch {
		case j == nil:
			finished = true
			return
		case !starts:
			l.answers.add(protocol.Header{Kind: protocol.Returned, ID: j.ctx.id}, nil)
			_ = l.answers.flush() // the reader sees the error too
		default:
			l.run(k, j)
		}
	}
}

// take waits for a task and marks it as started. starts is false if the host has recalled
// the task. At the end, j is nil.
func (l *concurrent) take(k int) (j *job, starts bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) == 0 {
		if l.ending {
			return nil, false
		}
		l.changed.Wait()
	}
	j, l.waiting[0] = l.waiting[0], nil
	l.waiting = l.waiting[1:]
	// Under the lock, so that tasks start in the order of their numbers.
	if l.page != nil && !l.page.BeginAt(k, j.ctx.id) {
		delete(l.open, j.ctx.id)
		return j, false
	}
	return j, true
}

func (l *concurrent) run(k int, j *job) {
	begin := l.now()
	if j.ctx.limited {
		j.ctx.deadline = begin + j.task.Limits.Timeout
	}
	run(j, func(j *job) {
		end := l.now()
		why := j.ctx.finish()
		l.mu.Lock()
		delete(l.open, j.ctx.id)
		l.mu.Unlock()
		l.answer(j, why, end-begin)
		_ = l.answers.flush() // the reader sees the error too
		if l.page != nil {
			l.page.EndAt(k)
		}
	})
}
