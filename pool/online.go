package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bullpen-run/bullpen"
)

// IncompleteError is the error of a [Run] that ended before all its tasks had started.
type IncompleteError struct {
	// NotStarted holds the indices of the tasks that did not start.
	NotStarted []int
	// Total is the number of all tasks.
	Total int
	// Cause is why the context ended, or why tasks were not accepted.
	Cause error
}

// Error returns how many tasks did not start.
func (e *IncompleteError) Error() string {
	return fmt.Sprintf("%d of %d tasks did not start: %v", len(e.NotStarted), e.Total, e.Cause)
}

// Unwrap returns Cause.
func (e *IncompleteError) Unwrap() error { return e.Cause }

// Run runs a fixed set of tasks in a temporary pool, waits until all have ended, and closes
// the pool. This is the "online" mode; a pool made by [New] runs in the background. Run
// returns nil if all tasks succeeded.
//
// Otherwise the error joins up to three errors: an [IncompleteError] with the tasks that
// did not start because ctx ended; a [Failures] with the errors of all tasks, including
// those that did not start; and the error of [Pool.Close] about bodies that go on. A failed
// task does not stop the others. If ctx ends, the contexts of the tasks end, and no more
// tasks start.
//
// The overflow rule is always Block, whatever c specifies. If the configuration is invalid
// or a task is nil, Run returns an error and runs nothing.
func Run(ctx context.Context, c Config, tasks ...func(context.Context) error) error {
	for i, task := range tasks {
		if task == nil {
			return &IndexError{i, errNil}
		}
	}
	c.Overflow = Block
	p, err := New(c) //nolint:contextcheck // the pool's log is not the caller's
	if err != nil {
		return err
	}
	g := p.Group(ctx, GroupConfig{Errors: AllErrors})
	errs := make(Failures, len(tasks))
	accepted := make([]int, 0, len(tasks))
	for i, task := range tasks {
		if errs[i] = g.Go(task); errs[i] == nil {
			accepted = append(accepted, i)
		}
	}
	_ = g.Wait() // Errors returns everything that it contains
	for k, err := range g.Errors() {
		errs[accepted[k]] = err
	}
	return errors.Join(missing(ctx, errs), failing(errs), p.Close()) //nolint:contextcheck // all has ended, but what ignores its context
}

// missing returns an IncompleteError, or nil if all tasks have started.
func missing(ctx context.Context, errs Failures) error {
	e := &IncompleteError{Total: len(errs), Cause: context.Cause(ctx)}
	for i, err := range errs {
		if err != nil && !hasStarted(err) {
			e.NotStarted = append(e.NotStarted, i)
			if e.Cause == nil {
				e.Cause = err
			}
		}
	}
	if e.NotStarted == nil {
		return nil
	}
	return e
}

// hasStarted reports whether err is the outcome of a task that started.
func hasStarted(err error) bool {
	_, started := bullpen.OutcomeOf(err)
	return started
}

// failing returns errs, or nil if no task failed.
func failing(errs Failures) error {
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return errs
	}
	return nil
}
