package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// waiters are the goroutines of this program that wait for ends of jobs.
type waiters struct {
	mu     sync.Mutex
	ByID   map[string][]chan<- waited // guarded by mu
	closed error                      // guarded by mu
}

type waited struct {
	ending *record.End
	err    error
}

// add registers c, which has room for one value, for the end of id.
func (w *waiters) add(id string, c chan<- waited) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed != nil {
		c <- waited{err: w.closed}
		return
	}
	if w.ByID == nil {
		w.ByID = make(map[string][]chan<- waited)
	}
	w.ByID[id] = append(w.ByID[id], c)
}

func (w *waiters) remove(id string, c chan<- waited) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.ByID[id]
	for i := range all {
		if all[i] == c {
			all = append(all[:i], all[i+1:]...)
			break
		}
	}
	if len(all) == 0 {
		delete(w.ByID, id)
		return
	}
	w.ByID[id] = all
}

// take removes and returns the waiters for id, which the caller then notifies.
func (w *waiters) take(id string) []chan<- waited {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.ByID[id]
	delete(w.ByID, id)
	return all
}

func (w *waiters) failAll(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed == nil {
		w.closed = err
	}
	for _, all := range w.ByID {
		for _, c := range all {
			c <- waited{err: err}
		}
	}
	w.ByID = nil
}

// Announce reports a recorded end to the waiters, here and on other nodes.
func (q *Jobs) Announce(e *record.End) {
	q.Above.Ended(e)
	for _, c := range q.Waits.take(e.ID) {
		c <- waited{ending: e}
	}
	if q.Engine.Shared() {
		q.Engine.Send("done."+e.ID, nil) //nolint:errcheck // who waits on another node also asks from time to time
	}
}

// Wait implements queue.Queue.Wait.
func (q *Jobs) Wait(ctx context.Context, id string) (bullpen.Result, error) {
	e, err := q.waitEnd(ctx, id)
	if err != nil {
		return bullpen.Result{}, err
	}
	return e.Give()
}

// waitEnd waits for the end of a job.
func (q *Jobs) waitEnd(ctx context.Context, id string) (*record.End, error) {
	if err := record.CheckID(id); err != nil {
		return nil, err
	}
	c := make(chan waited, 1)
	q.Waits.add(id, c)
	defer q.Waits.remove(id, c)
	return q.waitOn(ctx, id, c)
}

// endOf returns the end of the job that ref names.
func endOf(ref job.Ref, e *record.End) (job.Ref, bullpen.Result, error) {
	if ref.Attempts = e.Tries.Started; ref.Attempts == 0 && e.Outcome == bullpen.OK {
		ref.Attempts = 1 // a first attempt that ends well is not recorded
	}
	r, err := e.Give()
	return ref, r, err
}

// AskAgain is how often a waiter reads the store itself, in case the message of another
// node was lost.
const AskAgain = 5 * time.Second

// AskSoon is how soon a waiter reads again after the store did not answer.
const AskSoon = 200 * time.Millisecond

// waitOn reads the store and waits on c, which is already registered for id.
func (q *Jobs) waitOn(ctx context.Context, id string, c chan waited) (*record.End, error) {
	ended, stop, err := q.subscribe(id)
	if err != nil {
		return nil, StoreError(err)
	}
	defer stop()
	var tick <-chan time.Time
	if ended != nil {
		ticker := time.NewTicker(AskAgain)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		e, err := q.hasEnded(ctx, id)
		var retry <-chan time.Time
		switch {
		case e != nil && err == nil:
			return e, nil
		case ctx.Err() != nil:
			return nil, gaveUp(ctx, id)
		case err != nil && (errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrDamaged) || q.Hopeless(err)):
			return nil, err
		case err != nil:
			retry = time.After(AskSoon) // the store is unreachable for a moment
		}
		select {
		case <-retry:
		case w := <-c:
			return w.ending, w.err
		case <-ended:
		case <-tick:
		case <-ctx.Done():
			return nil, gaveUp(ctx, id)
		}
	}
}

func gaveUp(ctx context.Context, id string) error {
	return fmt.Errorf("gave up waiting for job %s, which continues: %w", id, context.Cause(ctx))
}

// subscribe returns a channel that is signaled when another node reports the end of id; it
// is nil if the store has no other nodes.
func (q *Jobs) subscribe(id string) (ended chan struct{}, stop func(), err error) {
	if !q.Engine.Shared() {
		return nil, func() {}, nil
	}
	ended = make(chan struct{}, 1)
	stop, err = q.Engine.Listen("done."+id, func(string, []byte) {
		select {
		case ended <- struct{}{}:
		default:
		}
	})
	return ended, stop, err
}

// hasEnded returns how a job ended, nil if it has not.
func (q *Jobs) hasEnded(ctx context.Context, id string) (*record.End, error) {
	e, err := q.Outcome(ctx, id)
	if err == nil {
		err = q.Settle(ctx)
	}
	if err == nil || !errors.Is(err, engine.ErrNotFound) {
		return e, StoreError(err)
	}
	info, err := q.Get(ctx, id)
	if errors.Is(err, job.ErrDamaged) {
		return nil, nil // it will be buried when its turn comes
	}
	if err != nil {
		return nil, err
	}
	if info.State.Ended() {
		if e, err = q.Outcome(ctx, id); err == nil {
			err = q.Settle(ctx)
		}
		return e, StoreError(err)
	}
	return nil, nil
}

// Run implements queue.Queue.Run.
func (q *Jobs) Run(ctx context.Context, j job.Job) (ref job.Ref, r bullpen.Result, err error) {
	s, err := q.Accept(&j)
	if err != nil {
		return job.Ref{}, bullpen.Result{}, err
	}
	c := make(chan waited, 1)
	id := s.ID
	q.Waits.add(id, c)
	defer func() { q.Waits.remove(id, c) }()
	ref, err = q.EnqueueStored(ctx, s)
	if err != nil {
		return ref, bullpen.Result{}, err
	}
	if ref.ID != id {
		r, err = q.Wait(ctx, ref.ID)
		return ref, r, err
	}
	if q.Engine.Shared() {
		e, err := q.waitOn(ctx, id, c)
		if err != nil {
			return ref, bullpen.Result{}, err
		}
		return endOf(ref, e)
	}
	select {
	case w := <-c:
		if w.err != nil {
			return ref, bullpen.Result{}, w.err
		}
		return endOf(ref, w.ending)
	case <-ctx.Done():
		return ref, bullpen.Result{}, gaveUp(ctx, id)
	}
}
