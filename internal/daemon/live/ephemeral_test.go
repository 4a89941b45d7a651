package live

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bullpen-run/bullpen"
)

// TestEphemeral shows that what is no job is found by its id, and is never taken
// for a job.
func TestEphemeral(t *testing.T) {
	t.Parallel()
	h, e, own := newHub(t, Config{}), &held{}, &held{}
	jobs, runs := h.Wrap("jobs", e), h.WrapEphemeral("runs", own)
	seen := &counting{}
	start(t, runs, "a", 1, seen)
	if pool, ok := h.Where("a"); !ok || pool != "runs" {
		t.Errorf("Where = %q, %v", pool, ok)
	}
	own.task("a").Observer.Log(bullpen.LogLine{Text: "not of the job"})
	if h.Follow("a", Position{}) != nil {
		t.Error("an ephemeral task is followed as a job")
	}
	again := bullpen.Task{ID: "a"}
	if err := runs.Submit(t.Context(), again, func(bullpen.Result, error) {}); !errors.Is(err, ErrLive) {
		t.Errorf("a second task of the same id: %v, want ErrLive", err)
	}
	if _, err := bullpen.Execute(t.Context(), runs, again); !errors.Is(err, ErrLive) {
		t.Errorf("a second task of the same id, executed: %v, want ErrLive", err)
	}

	// The job whose id was taken goes on as if there was no such task.
	start(t, jobs, "a", 1, nil)
	if pool, ok := h.Where("a"); !ok || pool != "jobs" {
		t.Errorf("Where with both = %q, %v", pool, ok)
	}
	e.task("a").Observer.Log(bullpen.LogLine{Text: "of the job"})
	own.task("a").done(bullpen.Result{}, nil)
	if err := runs.Submit(t.Context(), again, func(bullpen.Result, error) {}); !errors.Is(err, ErrLive) {
		t.Errorf("a task with the id of a job that runs: %v, want ErrLive", err)
	}
	f := h.Follow("a", Position{})
	e.task("a").done(bullpen.Result{}, nil)
	if got, want := words(rest(f)), "1.0 began, 1.1 of the job, 1.2 ended"; got != want {
		t.Errorf("the job: %s, want %s", got, want)
	}
	if *seen != (counting{0, 1}) {
		t.Errorf("the observer of the ephemeral task saw %+v", *seen)
	}
	start(t, runs, "a", 1, nil)
	own.task("a").done(bullpen.Result{}, nil)
}

// TestEphemeralOnce shows that of many tasks with one id that begin at once one runs.
func TestEphemeralOnce(t *testing.T) {
	t.Parallel()
	h, e := newHub(t, Config{}), &held{}
	x := h.WrapEphemeral("p", e)
	var all sync.WaitGroup
	var began atomic.Int64
	for range 16 {
		all.Go(func() {
			if x.Submit(t.Context(), bullpen.Task{ID: "a"}, func(bullpen.Result, error) {}) == nil {
				began.Add(1)
			}
		})
	}
	all.Wait()
	if n := began.Load(); n != 1 {
		t.Errorf("%d tasks of one id run, want one", n)
	}
	e.task("a").done(bullpen.Result{}, nil)
}
