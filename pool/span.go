package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/bullpen-run/bullpen"
)

// span is the context that the tasks of a group or of a batch share. It ends with
// the caller's, with the pool, and when whoever made it ends it.
type span struct {
	context.Context //nolint:containedctx // it is a context
	cancel          context.CancelCauseFunc
	pool            *Pool
}

func (s *span) init(ctx context.Context, p *Pool) {
	s.pool = p
	s.Context, s.cancel = context.WithCancelCause(ctx)
}

// end ends the span for good.
func (s *span) end() {
	s.cancel(context.Canceled)
	if s.pool.config.Overflow == CallerRuns || s.pool.config.Help {
		s.pool.mu.Lock()
		delete(s.pool.spans, s)
		s.pool.mu.Unlock()
	}
}

// spanContext is what a worker gives to the tasks of a span. There is one for
// each worker, so that nothing is made for a task.
type spanContext struct {
	*span
	worker *worker
}

// Value finds the worker, too, so that nested work is seen.
func (c *spanContext) Value(key any) any {
	if key == (workerKey{}) {
		return c.worker
	}
	return c.Context.Value(key)
}

// on gives the context for a task that worker w runs.
func (s *span) on(w *worker) context.Context {
	if c := w.span.Load(); c != nil && c.span == s {
		return c
	}
	c := &spanContext{s, w}
	w.span.Store(c) // the pool's end finds it here
	p := s.pool
	if w.guest {
		p.mu.Lock()
		if p.spans == nil {
			p.spans = map[*span]struct{}{}
		}
		p.spans[s] = struct{}{}
		p.mu.Unlock()
	}
	if p.state.State() >= Closing {
		s.cancel(p.closedError()) // the pool's end may have missed it
	}
	return c
}

// cancelSpans ends the spans whose tasks run.
func (p *Pool) cancelSpans(reason error) {
	for _, w := range p.seats(nil) {
		if c := w.span.Load(); c != nil {
			c.cancel(reason)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.spans {
		go s.cancel(reason) // it may take mu; ends at once
	}
}

// notStarted is the error of tasks that were not started because of cause.
func notStarted(k *kind, cause error) error {
	return fmt.Errorf("task %q did not start: %w", k.name, cause)
}

// notMine is a cause without the outcome of another task in it, so that nobody
// takes that for the outcome of the task which has the cause.
func notMine(cause error) error {
	var other *bullpen.TaskError
	if !errors.As(cause, &other) {
		return cause
	}
	if _, deeper := bullpen.OutcomeOf(other.Err); other.Err == nil || deeper {
		return fmt.Errorf("%w after another one failed: %v", context.Canceled, cause) //nolint:errorlint // see above
	}
	return fmt.Errorf("%w after another one failed: %w", context.Canceled, other.Err)
}

// queueOf is the queue of a place for this goroutine.
func (at *placement) queueOf() *queue {
	if at.lane != nil {
		return &at.lane.queue
	}
	return at.pool.shard()
}

// try puts an item into q if that is the pool's own and there is room at once. It
// never waits.
func (at *placement) try(q *queue, it item) bool {
	p := at.pool
	if q.lane != nil || at.delay > 0 {
		return false
	}
	if p.hand(it, false) {
		return true
	}
	q.in.mu.Lock()
	if q.in.room <= 0 {
		q.in.mu.Unlock()
		return false
	}
	q.push(at.priority, it)
	q.in.mu.Unlock()
	p.call()
	return true
}

// insist puts an item into q, and waits for that as the queue's rule says.
func (at *placement) insist(ctx context.Context, q *queue, it item) error {
	if q.lane != nil {
		return at.put(ctx, nil, it)
	}
	if err := at.enter(ctx); err != nil {
		return err
	}
	return q.gate.pass(ctx, at, q, it)
}
