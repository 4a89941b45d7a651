package jobs

import (
	"errors"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// The pauses between attempts to store something.
const (
	FirstPause = 10 * time.Millisecond
	LastPause  = 5 * time.Second
)

// Keep calls store, which stores something of a job, until it succeeds or can never
// succeed. A conflict counts as an answer.
func (q *Jobs) Keep(id string, store func(done func(error)), done func(error)) {
	store(func(err error) {
		if err == nil || errors.Is(err, engine.ErrConflict) || q.Hopeless(err) {
			done(err)
			return
		}
		q.Spawn(func() { done(q.keepTrying(id, store, err)) }) // ends when it is stored, or with live
	})
}

func (q *Jobs) keepTrying(id string, store func(done func(error)), err error) error {
	for wait := FirstPause; ; wait = min(2*wait, LastPause) {
		q.Journal.Emit(job.Event{Kind: job.NotKept, Job: id, Text: err.Error()})
		if !q.PauseFor(wait) {
			return engine.ErrClosed
		}
		answer := make(chan error, 1)
		store(func(err error) { answer <- err })
		select {
		case err = <-answer:
		case <-q.Live.Done():
			return engine.ErrClosed
		}
		if err == nil || errors.Is(err, engine.ErrConflict) || q.Hopeless(err) {
			return err
		}
	}
}

// Hopeless reports whether an error of the store is permanent.
func (q *Jobs) Hopeless(err error) bool {
	return q.Live.Err() != nil || errors.Is(err, engine.ErrClosed) || errors.Is(err, job.ErrClosed) || errors.Is(err, engine.ErrFailed)
}

// PauseFor waits, and reports whether the queue is still open.
func (q *Jobs) PauseFor(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-q.Live.Done():
		return false
	}
}
