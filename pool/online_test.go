package pool

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	tasks := make([]func(context.Context) error, 500)
	for i := range tasks {
		tasks[i] = func(context.Context) error {
			n.Add(1)
			return nil
		}
	}
	if err := Run(context.Background(), Config{Max: 3, Queue: 2, Overflow: Reject}, tasks...); err != nil || n.Load() != 500 {
		t.Errorf("%d ran, %v", n.Load(), err)
	}
	if err := Run(context.Background(), Config{}); err != nil {
		t.Error(err)
	}
}

func TestRunTellsEachError(t *testing.T) {
	t.Parallel()
	err := Run(context.Background(), Config{Max: 2},
		func(context.Context) error { return nil },
		func(context.Context) error { return errSour },
		func(context.Context) error { panic("sweet") },
		func(context.Context) error { return nil })
	var errs Failures
	if !errors.As(err, &errs) || errs[0] != nil || errs[3] != nil {
		t.Fatal(err)
	}
	wantOutcome(t, errs[1], bullpen.Failed)
	wantOutcome(t, errs[2], bullpen.Panic)
	if errors.As(err, new(*IncompleteError)) {
		t.Error(err)
	}
}

func TestRunIncomplete(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	first := func(ctx context.Context) error {
		cancel(errSour)
		<-ctx.Done()
		return ctx.Err()
	}
	rest := func(context.Context) error { return nil }
	err := Run(ctx, Config{Max: 1, Queue: 1}, first, rest, rest, rest, rest)
	var missing *IncompleteError
	if !errors.As(err, &missing) || len(missing.NotStarted) != 4 || missing.Total != 5 || !errors.Is(err, errSour) {
		t.Fatal(err)
	}
	if !strings.Contains(err.Error(), "4 of 5 tasks did not start: sour") {
		t.Error(err)
	}
}

func TestRunWithStuckBody(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	c := Config{Max: 2, Timeout: 5 * time.Millisecond, Grace: time.Millisecond, CloseGrace: 5 * time.Millisecond}
	err := Run(context.Background(), c,
		func(context.Context) error { <-release; return nil },
		func(context.Context) error { return nil })
	var errs Failures
	if !errors.As(err, &errs) || errs[1] != nil {
		t.Fatal(err)
	}
	wantOutcome(t, errs[0], bullpen.Timeout)
	if !strings.Contains(err.Error(), "still run") {
		t.Error(err)
	}
}

func TestRunRefusesFaults(t *testing.T) {
	t.Parallel()
	if err := Run(context.Background(), Config{Max: -1}); err == nil || !strings.Contains(err.Error(), "Max is -1") {
		t.Error(err)
	}
	err := Run(context.Background(), Config{}, func(context.Context) error { return nil }, nil)
	var which *IndexError
	if !errors.As(err, &which) || which.Index != 1 {
		t.Error(err)
	}
}
