package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// waiters are who waits for the ends of jobs in this program.
type waiters struct {
	mu     sync.Mutex
	byID   map[string][]chan<- waited // guarded by mu
	closed error                      // guarded by mu
}

type waited struct {
	ending *ending
	err    error
}

// add makes c hear of the end of id, once. c has room for one.
func (w *waiters) add(id string, c chan<- waited) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed != nil {
		c <- waited{err: w.closed}
		return
	}
	if w.byID == nil {
		w.byID = make(map[string][]chan<- waited)
	}
	w.byID[id] = append(w.byID[id], c)
}

func (w *waiters) remove(id string, c chan<- waited) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.byID[id]
	for i := range all {
		if all[i] == c {
			all = append(all[:i], all[i+1:]...)
			break
		}
	}
	if len(all) == 0 {
		delete(w.byID, id)
		return
	}
	w.byID[id] = all
}

// take returns who waits for id, who are then told.
func (w *waiters) take(id string) []chan<- waited {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.byID[id]
	delete(w.byID, id)
	return all
}

func (w *waiters) failAll(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed == nil {
		w.closed = err
	}
	for _, all := range w.byID {
		for _, c := range all {
			c <- waited{err: err}
		}
	}
	w.byID = nil
}

// announce tells of an end that is recorded.
func (q *Queue) announce(e *ending) {
	q.noteEnd(e)
	for _, c := range q.waits.take(e.id) {
		c <- waited{ending: e}
	}
	if q.engine.Shared() {
		q.engine.Send("done."+e.id, nil) //nolint:errcheck // who waits on another node also asks from time to time
	}
}

// Wait waits for the end of a job and returns its result, from whatever node it
// is called. The error is an *EndError when the job ended otherwise than well,
// ErrNotFound when there is no such job; when ctx ends first the job goes on, and
// the error wraps the cause of ctx.
//
// What it returns survives a loss of power.
func (q *Queue) Wait(ctx context.Context, id string) (bullpen.Result, error) {
	e, err := q.waitEnd(ctx, id)
	if err != nil {
		return bullpen.Result{}, err
	}
	return e.give()
}

// waitEnd waits for the end of a job.
func (q *Queue) waitEnd(ctx context.Context, id string) (*ending, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	c := make(chan waited, 1)
	q.waits.add(id, c)
	defer q.waits.remove(id, c)
	return q.wait(ctx, id, c)
}

func (e *ending) give() (bullpen.Result, error) {
	return bullpen.Result{Payload: e.result, Stats: e.stats}, e.err()
}

// tell gives the end of the job that ref names.
func (e *ending) tell(ref Ref) (Ref, bullpen.Result, error) {
	if ref.Attempts = e.tries.started; ref.Attempts == 0 && e.outcome == bullpen.OK {
		ref.Attempts = 1 // nothing is recorded of a first one that ends well
	}
	r, err := e.give()
	return ref, r, err
}

// askAgain is how often a waiter asks the store itself, for the case that the
// word of another node was lost.
const askAgain = 5 * time.Second

// askSoon is how soon it asks again after the store did not answer.
const askSoon = 200 * time.Millisecond

// wait waits on c, which is among the waiters for id already, and asks the store.
func (q *Queue) wait(ctx context.Context, id string, c chan waited) (*ending, error) {
	heard, stop, err := q.hear(id)
	if err != nil {
		return nil, storeError(err)
	}
	defer stop()
	var tick <-chan time.Time
	if heard != nil {
		ticker := time.NewTicker(askAgain)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		e, err := q.ended(ctx, id)
		var retry <-chan time.Time
		switch {
		case e != nil && err == nil:
			return e, nil
		case ctx.Err() != nil:
			return nil, gaveUp(ctx, id)
		case err != nil && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) || q.hopeless(err)):
			return nil, err
		case err != nil:
			retry = time.After(askSoon) // the store is away for a moment
		}
		select {
		case <-retry:
		case w := <-c:
			return w.ending, w.err
		case <-heard:
		case <-tick:
		case <-ctx.Done():
			return nil, gaveUp(ctx, id)
		}
	}
}

func gaveUp(ctx context.Context, id string) error {
	return fmt.Errorf("gave up waiting for job %s, which goes on: %w", id, context.Cause(ctx))
}

// hear makes heard tell when another node says that id has ended; heard is nil
// where there are no other nodes.
func (q *Queue) hear(id string) (heard chan struct{}, stop func(), err error) {
	if !q.engine.Shared() {
		return nil, func() {}, nil
	}
	heard = make(chan struct{}, 1)
	stop, err = q.engine.Listen("done."+id, func(string, []byte) {
		select {
		case heard <- struct{}{}:
		default:
		}
	})
	return heard, stop, err
}

// ended returns how a job ended, nil while it has not.
func (q *Queue) ended(ctx context.Context, id string) (*ending, error) {
	e, err := q.outcome(ctx, id)
	if err == nil {
		err = q.settle(ctx)
	}
	if err == nil || !errors.Is(err, engine.ErrNotFound) {
		return e, storeError(err)
	}
	info, err := q.Get(ctx, id)
	if errors.Is(err, ErrDamaged) {
		return nil, nil // it is buried when its turn comes
	}
	if err != nil {
		return nil, err
	}
	if info.State.Ended() {
		if e, err = q.outcome(ctx, id); err == nil {
			err = q.settle(ctx)
		}
		return e, storeError(err)
	}
	return nil, nil
}

// Run enqueues j and waits for its end: Enqueue and Wait in one, and cheaper.
// When ctx ends first the job goes on; ref names it.
func (q *Queue) Run(ctx context.Context, j Job) (ref Ref, r bullpen.Result, err error) {
	s, err := q.accept(&j)
	if err != nil {
		return Ref{}, bullpen.Result{}, err
	}
	c := make(chan waited, 1)
	id := s.id
	q.waits.add(id, c)
	defer func() { q.waits.remove(id, c) }()
	ref, err = q.enqueue(ctx, s)
	if err != nil {
		return ref, bullpen.Result{}, err
	}
	if ref.ID != id {
		r, err = q.Wait(ctx, ref.ID)
		return ref, r, err
	}
	if q.engine.Shared() {
		e, err := q.wait(ctx, id, c)
		if err != nil {
			return ref, bullpen.Result{}, err
		}
		return e.tell(ref)
	}
	select {
	case w := <-c:
		if w.err != nil {
			return ref, bullpen.Result{}, w.err
		}
		return w.ending.tell(ref)
	case <-ctx.Done():
		return ref, bullpen.Result{}, gaveUp(ctx, id)
	}
}
