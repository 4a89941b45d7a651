package pool

import (
	"context"
	"fmt"
)

// ErrorRule is the effect of a failed task on its group.
type ErrorRule uint8

// The rules.
const (
	// FirstError cancels the group's context at the first failure, and withdraws the tasks
	// that wait.
	FirstError ErrorRule = iota
	// AllErrors runs all tasks.
	AllErrors
)

// String returns the name of r.
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

// GroupConfig configures a group. The zero value is valid.
type GroupConfig struct {
	// Limit is how many tasks of the group may wait or run at a time; 0 or less means no
	// limit.
	Limit int
	// Errors is the effect of a failed task on the others. The zero value is FirstError.
	Errors ErrorRule
}

// Group is a set of tasks to wait for together. See [FuncGroup] for tasks with results. All
// methods are safe for concurrent use.
type Group struct {
	tasks *FuncGroup[func(context.Context) error, struct{}]
}

// Group makes a group of tasks. Their context ends with ctx, at the first failure if the
// rule is [FirstError], and when Wait returns. A group costs less than a microsecond and
// some hundred bytes.
func (p *Pool) Group(ctx context.Context, c GroupConfig) *Group { return p.main.group(ctx, c) }

// Group is [Pool.Group] in the lane.
func (l *Lane) Group(ctx context.Context, c GroupConfig) *Group { return l.main.group(ctx, c) }

// Group is [Pool.Group] with the options of p.
func (p Submitter) Group(ctx context.Context, c GroupConfig) *Group { return p.target.group(ctx, c) }

func (at *target) group(ctx context.Context, c GroupConfig) *Group {
	f := &Func[func(context.Context) error, struct{}]{target: at, fn: runTask}
	return &Group{f.group(ctx, c, &at.kind.slabs)}
}

func runTask(ctx context.Context, fn func(context.Context) error) (struct{}, error) {
	return struct{}{}, fn(ctx)
}

// Go submits a task. See [FuncGroup.Go] for when it waits and when a task is not accepted.
// Wait returns the error of fn, a panic, or a Goexit.
func (g *Group) Go(fn func(context.Context) error) error {
	if fn == nil {
		return errNil
	}
	return g.tasks.Go(fn)
}

// Wait waits until all tasks of the group have ended, and ends the group: from then on, Go
// returns [ErrGroupOver]. See [FuncGroup.Wait] for the error. Further calls of Wait return
// the same.
func (g *Group) Wait() error {
	_, err := g.tasks.Wait()
	return err
}

// Errors waits like Wait, and returns the error of each accepted task in the order of
// submission. It returns nil if no task failed.
func (g *Group) Errors() []error { return g.tasks.Errors() }
