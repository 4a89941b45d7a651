package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/history"
	"github.com/bullpen-run/bullpen/internal/daemon/live"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/daemon/sigv4"
	"github.com/bullpen-run/bullpen/internal/daemon/trace"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/process/processprom"
	"github.com/bullpen-run/bullpen/queue"
)

// open does the part of New that may fail. If it fails, abandon closes what it has
// opened.
func (d *Daemon) open(ctx context.Context) error {
	s := d.settings
	var err error
	d.tracer, err = trace.New(trace.Config{Traces: s.Traces, Node: s.Node, Version: d.version, Logger: d.log}) //nolint:contextcheck // it outlives the call
	if err != nil {
		return err
	}
	d.log, d.requests = d.tracer.Logger(d.log), newRequests()
	if d.exported.Processes, err = processprom.New(); err != nil {
		return err
	}
	if d.hub, err = live.New(live.Config{}); err != nil {
		return err
	}
	if d.history, err = history.New(history.Config{}); err != nil {
		return err
	}
	c := access.Config{HTTP: s.HTTP, Probes: s.Probes, Lambda: s.Lambda, Logger: d.log, Observe: d.requests.observe}
	if s.Lambda.Keys != "" {
		d.keys = sigv4.New(s.Lambda.Keys)
		c.Watch = []access.Watch{{Name: "the keys of the Lambda front", Path: s.Lambda.Keys, Load: d.keys.Load}}
	}
	if d.access, err = access.New(c); err != nil {
		return err
	}
	// The probes answer while the queue is being opened, which takes long if it has
	// much to read.
	if s.Probes.Listen != "" {
		if err := d.openProbes(ctx); err != nil {
			return err
		}
	}
	if err := d.openFront(ctx); err != nil {
		return err
	}
	if s.Lambda.Listen != "" {
		if err := d.openLambda(ctx); err != nil {
			return err
		}
	}
	return d.openQueue(ctx)
}

const (
	// headStart is how long the queue is opened before workers start. Most errors,
	// such as that another daemon uses the queue, show up by then.
	headStart = 10 * time.Millisecond
	// firstReport and nextReport are when the log reports what the start waits for.
	firstReport = 2 * time.Second
	nextReport  = 30 * time.Second
)

// openQueue opens the queue, and meanwhile the pools.
func (d *Daemon) openQueue(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := d.settings.Queue
	c.Logger, c.Node, c.Refuse = d.log, d.settings.Node, d.refuse
	if d.tracer != nil {
		c.Ended = d.tracer.Ended
	}
	d.opening.Store(true)
	defer d.opening.Store(false)
	opened := make(chan error, 1)
	go func() { // ends when the queue is open, or with ctx; awaited below
		var err error
		if d.queue, err = queue.Open(ctx, c); err != nil {
			err = &OpenError{"the queue", err}
		}
		opened <- err
	}()
	head := time.NewTimer(headStart)
	defer head.Stop()
	select {
	case err := <-opened:
		if err != nil {
			return err
		}
		opened <- nil
	case <-head.C:
	}
	if err := d.openPools(); err != nil {
		cancel()
		<-opened
		return err
	}
	report := time.NewTimer(firstReport)
	defer report.Stop()
	for {
		select {
		case err := <-opened:
			return err
		case <-report.C:
			d.log.Warn("the daemon waits for the queue, and serves once it is open", "for", d.queueWaits())
			report.Reset(nextReport)
		}
	}
}

// queueWaits describes what opening the queue waits for.
func (d *Daemon) queueWaits() string {
	switch s := d.config().Store; {
	case s.URL != "" && s.Replicas > 1:
		return "more than half of the servers at " + s.URL + " must run and reach each other"
	case s.URL != "":
		return "the server at " + s.URL + " must answer"
	}
	return "it reads the stored jobs"
}

// addressTaken is the Windows error of an address in use (WSAEADDRINUSE).
const addressTaken syscall.Errno = 10048

// taken adds advice to the error of an address in use; where is the setting with the
// address.
func taken(err error, where string) error {
	var number syscall.Errno
	windows := runtime.GOOS == "windows" && errors.As(err, &number) && number == addressTaken
	if !windows && !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return fmt.Errorf("%w: another program uses the address, perhaps another bullpen serve: end it, or set another address (%s)", err, where)
}

// openPools creates all pools, and returns the errors of all that fail.
func (d *Daemon) openPools() error {
	s := d.settings
	if s.Budget != nil {
		b := *s.Budget
		b.Logger = d.log
		var err error
		if d.budget, err = process.NewBudget(b); err != nil {
			return fmt.Errorf("budget: %w", err)
		}
		if err = d.exported.Processes.AddBudget("all", d.budget, b); err != nil {
			return err
		}
	}
	errs := make([]error, 0, len(s.Pools))
	for _, name := range slices.Sorted(maps.Keys(s.Pools)) {
		g, err := d.generation(name, s.Pools[name])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		d.pools[name] = newPool(name, s.Pools[name], g)
		if g != nil {
			errs = append(errs, d.exported.Show(g.workers))
		}
	}
	return errors.Join(errs...)
}

// generation starts the workers of a pool; nil if it has no command.
func (d *Daemon) generation(name string, s settings.Pool) (*generation, error) {
	if len(s.Process.Command) == 0 {
		return nil, nil //nolint:nilnil // no workers are no error
	}
	return newGeneration(name, s, d)
}

// abandon closes what open has opened.
func (d *Daemon) abandon() {
	d.Close()
	for _, p := range d.pools {
		if err := p.end(context.Background(), closing); err != nil {
			d.log.Error("a pool did not stop", "error", err)
		}
	}
	if d.queue != nil {
		if err := d.queue.Close(); err != nil {
			d.log.Error("the queue was not closed cleanly", "error", err)
		}
	}
	for _, f := range []*front{d.front, d.lambda} {
		if f != nil {
			_ = f.close()
		}
	}
	if d.probes != nil {
		_ = d.probes.close()
	}
	end, cancel := context.WithCancel(context.Background())
	cancel() // no request was served, so there is nothing to wait for
	d.tracer.Close(end)
	_, _ = d.state.MoveAny(Closed)
}
