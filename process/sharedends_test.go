//go:build unix

package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/executortest"
)

// TestContractOfSharedCalls: with one task a call, as tasks of the suite wait for each other.
func TestContractOfSharedCalls(t *testing.T) {
	executortest.Run(t, executortest.Factory{Unasked: true, New: func(t *testing.T, o executortest.Options) bullpen.Executor {
		t.Helper()
		return listed{enveloped{open(t, Config{
			Command: []string{self(), "function", "suite-list"}, Protocol: Lambda, Min: o.Workers, Max: o.Workers, Queue: o.Queue,
			Overflow: Overflow(o.Overflow), Grace: o.Grace, Batch: Batch{Max: 1},
		})}}
	}, KillWorker: killOne})
}

// TestEndsWithinSharedCalls: a task of a call that goes on ends by its own limit or caller.
func TestEndsWithinSharedCalls(t *testing.T) {
	t.Parallel()
	for kind := range sharers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := sharedPool(t, kind, nil)
			gate := filepath.Join(t.TempDir(), "gate")
			tasks := errands(t, errand{"gate", gate}, errand{}, errand{}, errand{})
			tasks[2].Limits.Timeout = 50 * ms
			ends := make([]chan error, 4)
			canceled, cancel := context.WithCancel(t.Context())
			for i, task := range tasks {
				ends[i] = make(chan error, 1)
				ctx := t.Context()
				if i == 3 {
					ctx = canceled
				}
				if err := p.Submit(ctx, task, func(_ bullpen.Result, err error) { ends[i] <- err }); err != nil {
					t.Fatal(err)
				}
			}
			poll(t, "the call begins", func() bool { _, err := os.Stat(gate + ".begun"); return err == nil })
			cancel()
			te := wantOutcome(t, <-ends[3], bullpen.Canceled)
			if te.ID != "3" {
				t.Errorf("%+v", te)
			}
			_ = wantOutcome(t, <-ends[2], bullpen.Timeout)
			if s := p.Stats(); s.InHand != 2 {
				t.Errorf("%d tasks in hand", s.InHand)
			}
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(<-ends[0], <-ends[1]); err != nil {
				t.Error(err)
			}
			if s := p.Stats(); s.Started != 1 || s.InHand != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestEndOfSharedCall: the call ends with its last task, as a task of its own does.
func TestEndOfSharedCall(t *testing.T) {
	t.Parallel()
	for kind := range sharers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := sharedPool(t, kind, nil)
			tasks := errands(t, errand{"sleep", "1h"}, errand{}, errand{}, errand{})
			for i := range tasks {
				tasks[i].Limits.Timeout = time.Duration(50+20*i) * ms
			}
			if got := endsOf(p.ExecuteAll(within(t, time.Minute), tasks)); got != "timeout, timeout, timeout, timeout" {
				t.Errorf("%s", got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
			defer cancel()
			if got := endsOf(p.ExecuteAll(ctx, errands(t, errand{"sleep", "1h"}, errand{}, errand{}, errand{}))); got != "timeout, timeout, timeout, timeout" &&
				got != "never started, never started, never started, never started" { // if the worker is not back
				t.Errorf("%s", got)
			}
		})
	}
}

// TestCanceledInWindow: a task that waits for others has not started.
func TestCanceledInWindow(t *testing.T) {
	t.Parallel()
	p := sharedPool(t, "sqs", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*ms)
	defer cancel()
	_, err := p.Execute(ctx, bullpen.Task{})
	wantNeverStarted(t, err, context.DeadlineExceeded)
	for _, e := range p.ExecuteAll(ctx, make([]bullpen.Task, 2)) {
		wantNeverStarted(t, e.Err, context.DeadlineExceeded)
	}
	if s := p.Stats(); s.Queued != 0 || s.InHand != 0 {
		t.Errorf("%+v", s)
	}
}
