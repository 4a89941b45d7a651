//go:build unix

package process

import (
	"context"
	"errors"
	"testing"

	"github.com/bullpen-run/bullpen"
)

func TestWorkersTellsOfEach(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Min, c.Max = 1, 1 })
	do(t, p, "pid", "")
	all := p.Workers()
	if len(all) != 1 {
		t.Fatalf("there are %d workers, want one: %+v", len(all), all)
	}
	w := all[0]
	if w.PID <= 0 || w.State != WorkerIdle || w.Served != 1 || w.InHand != 0 || w.TaskID != "" || w.Recycling {
		t.Errorf("an idle worker is reported as %+v", w)
	}
	if w.Age <= 0 || w.Idle > w.Age || w.Window < 1 {
		t.Errorf("times and window are wrong: %+v", w)
	}
	if _, measured := p.Memory(); measured > 0 && w.Memory < 1<<20 {
		t.Errorf("its memory is %d bytes, although it can be measured", w.Memory)
	}
}

func TestWorkersTellsTheTaskInHand(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Min, c.Max = 1, 1 })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { // ends by cancel; waited for below
		defer close(ended)
		bullpen.Execute(ctx, p, bullpen.Task{ID: "the-task", Name: "block"}) //nolint:errcheck // it is canceled
	}()
	poll(t, "the worker has the task", func() bool {
		all := p.Workers()
		return len(all) == 1 && all[0].State == WorkerBusy && all[0].TaskAge > 0
	})
	if w := p.Workers()[0]; w.TaskID != "the-task" || w.TaskName != "block" || w.InHand != 1 || w.Idle != 0 {
		t.Errorf("a busy worker is reported as %+v", w)
	}
	cancel()
	<-ended
}

func TestRecycleReplacesOne(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := selfPool(t, func(c *Config) { c.Min, c.Max, c.Logger = 1, 1, j.logger() })
	pid := do(t, p, "pid", "")
	name := p.Workers()[0].Name
	if err := p.Recycle(name); err != nil {
		t.Fatal(err)
	}
	j.awaitEvents(t, Stopped, 1)
	wantSuccession(t, j, ByReload)
	if again := do(t, p, "pid", ""); again == pid {
		t.Error("the old worker serves on")
	}
	poll(t, "the old one is gone", func() bool { return errors.Is(p.Recycle(name), ErrNoWorker) })
	j.wantNoFaults(t)
}

// What it has in hand ends well, on the worker that had it.
func TestRecycleLetsTheTaskEnd(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Min, c.Max = 1, 1 })
	type end struct {
		worker string
		err    error
	}
	ends := make(chan end, 1)
	before := do(t, p, "pid", "")
	err := p.Submit(t.Context(), bullpen.Task{Name: "sleep", Payload: []byte("300ms")}, func(r bullpen.Result, err error) {
		ends <- end{r.Stats.Worker, err}
	})
	if err != nil {
		t.Fatal(err)
	}
	name := p.Workers()[0].Name
	if err := p.Recycle(name); err != nil {
		t.Fatal(err)
	}
	if e := <-ends; e.err != nil || e.worker != name {
		t.Errorf("the task ended on %s with %v, want %s and no error", e.worker, e.err, name)
	}
	poll(t, "another one is there", func() bool { return do(t, p, "pid", "") != before })
}

func TestRecycleRefuses(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Min, c.Max = 0, 1 })
	if err := p.Recycle("nobody"); !errors.Is(err, ErrNoWorker) {
		t.Errorf("a worker that is not there: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Recycle("nobody"); !errors.Is(err, bullpen.ErrClosed) {
		t.Errorf("a closed pool: %v", err)
	}
	if all := p.Workers(); len(all) != 0 {
		t.Errorf("a closed pool has %+v", all)
	}
	once := selfPool(t, func(c *Config) { c.Command, c.Protocol = []string{"/bin/cat"}, Exec })
	if err := once.Recycle("any"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("processes of one task each: %v", err)
	}
}

func BenchmarkWorkers(b *testing.B) {
	p, err := New(Config{Command: []string{"/bin/cat"}, Protocol: Lines, Min: 8, Max: 8})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	if err := p.Ready(b.Context(), 8); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if len(p.Workers()) != 8 {
			b.Fatal("workers are missing")
		}
	}
}
