package pool

import (
	"context"
	"fmt"
)

// ErrorRule is what a failure of one task means for its group.
type ErrorRule uint8

// The rules.
const (
	// FirstError cancels the group's context at the first failure, and takes back
	// what waits.
	FirstError ErrorRule = iota
	// AllErrors lets all tasks run.
	AllErrors
)

// String returns the words for r.
func (r ErrorRule) String() string {
	switch r {
	case FirstError:
		return "first error"
	case AllErrors:
		return "all errors"
	default:
		return fmt.Sprintf("error rule %d", uint8(r))
	}
}

// GroupConfig says what a group is like. The zero value is a group that works.
type GroupConfig struct {
	// Limit is how many tasks of the group may be in the pool at a time, waiting
	// and running ones; 0 or less means any number.
	Limit int
	// Errors is what a failure means for the others; the zero value is FirstError.
	Errors ErrorRule
}

// Group is a set of tasks that are waited for together. See [FuncGroup] for tasks
// with results. All methods are safe for concurrent use.
type Group struct {
	tasks *FuncGroup[func(context.Context) error, struct{}]
}

// Group makes a group of tasks. Their context ends with ctx, at the first failure
// where the rule is [FirstError], and when Wait returns. It costs less than a
// microsecond and some hundred bytes.
func (p *Pool) Group(ctx context.Context, c GroupConfig) *Group { return p.main.group(ctx, c) }

// Group is [Pool.Group] in the lane.
func (l *Lane) Group(ctx context.Context, c GroupConfig) *Group { return l.main.group(ctx, c) }

// Group is [Pool.Group] at the place.
func (p Place) Group(ctx context.Context, c GroupConfig) *Group { return p.placement.group(ctx, c) }

func (at *placement) group(ctx context.Context, c GroupConfig) *Group {
	f := &Func[func(context.Context) error, struct{}]{place: at, fn: runTask}
	return &Group{f.group(ctx, c, &at.kind.slabs)}
}

func runTask(ctx context.Context, fn func(context.Context) error) (struct{}, error) {
	return struct{}{}, fn(ctx)
}

// Go hands over a task. See [FuncGroup.Go] for when it waits and why a task is not
// accepted. What fn returns is told by Wait, a panic or Goexit too.
func (g *Group) Go(fn func(context.Context) error) error {
	if fn == nil {
		return errNil
	}
	return g.tasks.Go(fn)
}

// Wait waits until all tasks of the group have ended, and ends the group: Go then
// returns [ErrGroupOver]. See [FuncGroup.Wait] for the error. Who calls Wait again
// gets the same.
func (g *Group) Wait() error {
	_, err := g.tasks.Wait()
	return err
}

// Errors waits as Wait does, and returns how each accepted task ended in the order
// of submission, nil where it was well. It is nil when all was well.
func (g *Group) Errors() []error { return g.tasks.Errors() }
