package queue

import (
	"context"
	"errors"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// background runs what has to ask the store, again and again until it succeeds,
// then then. When the store is closed or has failed, the job is left alone.
func (a *attempt) background(ask func(context.Context) error, then func()) {
	q := a.queue
	q.spawn(func() { // ends when ask succeeds, at the latest with live or the store
		for wait := firstPause; ; wait = min(2*wait, lastPause) {
			err := ask(q.live)
			if err == nil {
				then()
				return
			}
			if q.hopeless(err) || !q.pauseFor(wait) {
				a.abandoned(err)
				return
			}
			q.journal.emit(Event{Kind: NotKept, Job: a.id(), Text: err.Error()})
		}
	})
}

// The pauses between tries to store something.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 5 * time.Second
)

// keep calls store, which stores something of a job, again and again until it is
// stored or can never be. A conflict is an answer.
func (q *Queue) keep(id string, store func(done func(error)), done func(error)) {
	store(func(err error) {
		if err == nil || errors.Is(err, engine.ErrConflict) || q.hopeless(err) {
			done(err)
			return
		}
		q.spawn(func() { done(q.keepTrying(id, store, err)) }) // ends when it is stored, or with live
	})
}

func (q *Queue) keepTrying(id string, store func(done func(error)), err error) error {
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		q.journal.emit(Event{Kind: NotKept, Job: id, Text: err.Error()})
		if !q.pauseFor(wait) {
			return engine.ErrClosed
		}
		answer := make(chan error, 1)
		store(func(err error) { answer <- err })
		select {
		case err = <-answer:
		case <-q.live.Done():
			return engine.ErrClosed
		}
		if err == nil || errors.Is(err, engine.ErrConflict) || q.hopeless(err) {
			return err
		}
	}
}

// hopeless reports whether an error of the store lasts.
func (q *Queue) hopeless(err error) bool {
	return q.live.Err() != nil || errors.Is(err, engine.ErrClosed) || errors.Is(err, ErrClosed) || errors.Is(err, engine.ErrFailed)
}

// pauseFor waits, and reports whether the queue is still open.
func (q *Queue) pauseFor(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-q.live.Done():
		return false
	}
}
