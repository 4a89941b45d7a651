package pebble

import (
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// receipt answers one delivery.
type receipt struct {
	engine   *Engine
	record   *record
	delivery int  // the number of its delivery
	answered bool // guarded by engine.mu
}

// open reports whether the delivery can still be answered. Engine.mu is held.
func (r *receipt) open() bool { return !r.answered && !r.engine.closed && r.engine.Err() == nil }

// current reports whether the message was not handed out again since.
func (r *receipt) current() bool {
	return r.record.deliveries == r.delivery && r.record.state.State() == taken
}

// Ack ends the message, even if the lease has passed and it was handed out again.
func (r *receipt) Ack() {
	e := r.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if !r.open() {
		return
	}
	r.answered = true
	if _, err := r.record.state.MoveAny(gone); err != nil {
		return // it was removed already
	}
	e.agenda.drop(r.record)
	e.queue.give(operation{kind: removing, stream: engine.Jobs, seq: r.record.seq, subject: r.record.subject, size: r.record.size})
}

// End stores messages and ends the message in one batch.
func (r *receipt) End(puts []engine.Put, done func(error)) {
	for i := range puts {
		if err := r.engine.accept(&puts[i]); err != nil {
			done(err)
			return
		}
	}
	if r.engine.queue.give(operation{kind: ending, puts: puts, ends: r, done: func(_ uint64, err error) { done(err) }}) {
		done(engine.ErrClosed)
	}
}

// leave records that the message ends, and reports whether it still exists.
func (r *receipt) leave() bool {
	e := r.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.answered {
		return false
	}
	r.answered = true
	if _, err := r.record.state.MoveAny(gone); err != nil {
		return false // it was removed already
	}
	e.agenda.drop(r.record)
	return true
}

// Nak gives the message back.
func (r *receipt) Nak(delay time.Duration) {
	e := r.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if !r.open() {
		return
	}
	r.answered = true
	if !r.current() {
		return
	}
	if !r.record.had || !r.record.consumer.name.Grouped {
		e.handBack(r.record) // before it is handed out again
	}
	switch {
	case delay <= 0:
		r.record.consumer.giveBack(r.record, taken)
	case r.record.move(taken, delayed):
		e.at(r.record, time.Now().Add(delay))
	}
}

// Extend renews the lease.
func (r *receipt) Extend() {
	e := r.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.open() && r.current() {
		e.at(r.record, time.Now().Add(e.options.Lease))
	}
}

// Begin records that a job with a group begins.
func (r *receipt) Begin() {
	e := r.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if !r.open() || !r.current() || !r.record.consumer.name.Grouped {
		return
	}
	r.record.had = false
	if err := e.handouts.take(handout{e.space, r.record.seq}); err != nil {
		e.fail(fmt.Errorf("recording the start of a job: %w", err))
	}
	e.nudge()
}

// handBack records that a job is no longer handed out. The engine is locked, so that it
// is not handed out meanwhile.
func (e *Engine) handBack(r *record) {
	if err := e.handouts.back(handout{e.space, r.seq}); err != nil {
		e.fail(fmt.Errorf("recording that a job was given back: %w", err))
	}
}
