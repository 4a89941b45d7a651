package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/bullpen-run/bullpen"
)

// span is the context that the tasks of a group or batch share. It ends with the caller's
// context, with the pool, and when its creator ends it.
type span struct {
	context.Context //nolint:containedctx // it is a context
	cancel          context.CancelCauseFunc
	pool            *Pool
}

func (s *span) init(ctx context.Context, p *Pool) {
	s.pool = p
	s.Context, s.cancel = context.WithCancelCause(ctx)
}

// end ends the span.
func (s *span) end() {
	s.cancel(context.Canceled)
	if s.pool.config.Overflow == CallerRuns || s.pool.config.Help {
		s.pool.mu.Lock()
		delete(s.pool.spans, s)
		s.pool.mu.Unlock()
	}
}

// spanContext is the context of the tasks of a span in one worker. Each worker makes one,
// so tasks do not allocate any.
type spanContext struct {
	*span
	worker *worker
}

// Value also finds the worker, so that nested work is detected.
func (c *spanContext) Value(key any) any {
	if key == (workerKey{}) {
		return c.worker
	}
	return c.Context.Value(key)
}

// on returns the context for a task that worker w runs.
func (s *span) on(w *worker) context.Context {
	if c := w.span.Load(); c != nil && c.span == s {
		return c
	}
	c := &spanContext{s, w}
	w.span.Store(c) // so that cancelSpans finds it
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
		s.cancel(p.closedError()) // cancelSpans may have missed it
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

// notStarted returns the error of tasks that did not start because of cause.
func notStarted(k *kind, cause error) error {
	return fmt.Errorf("task %q did not start: %w", k.name, cause)
}

// notMine removes the TaskError of another task from cause, so that it is not mistaken for
// the outcome of the task that gets the cause.
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

// queueOf returns the queue of a target for the calling goroutine.
func (at *target) queueOf() *queue {
	if at.lane != nil {
		return &at.lane.queue
	}
	return at.pool.shard()
}

// try puts an item into q if q is the pool's own queue and has room. It never waits.
func (at *target) try(q *queue, it item) bool {
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

// insist puts an item into q, and follows the queue's overflow rule.
func (at *target) insist(ctx context.Context, q *queue, it item) error {
	if q.lane != nil {
		return at.put(ctx, nil, it)
	}
	if err := at.enter(ctx); err != nil {
		return err
	}
	return q.admission.pass(ctx, at, q, it)
}
