package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/logs"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/level"
	"github.com/bullpen-run/bullpen/process"
)

// Reload reads the configuration again, puts it into effect, and returns the keys
// that changed. New workers are ready before the old ones end. If the configuration
// has faults, or workers do not start with it, nothing changes. Reload returns when
// the new configuration is in effect; the old workers may take longer to finish their
// tasks in hand.
func (d *Daemon) Reload(ctx context.Context) (changed []string, err error) {
	if d.load == nil {
		return nil, errors.New("this daemon was started without a way to reload its configuration")
	}
	select {
	case d.turn <- struct{}{}:
	case <-d.stopping:
		return nil, d.notServing()
	case <-ctx.Done():
		return nil, fmt.Errorf("another reload is still running: %w", context.Cause(ctx))
	}
	next, err := d.read(ctx)
	if errors.Is(err, errUnread) { // the reading goroutine frees the turn
		return nil, err
	}
	defer func() { <-d.turn }()
	// The end of the daemon waits while a configuration is put into effect, but not
	// while it is read: it may be on a disk that does not answer.
	d.reloading <- struct{}{} // only the end of the daemon competes for it
	defer func() { <-d.reloading }()
	if d.state.State() != Serving {
		return nil, d.notServing()
	}
	if err == nil {
		changed, err = d.takeOver(ctx, next)
	}
	d.note(changed, err)
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// notServing returns why the daemon does not reload.
func (d *Daemon) notServing() error {
	return fmt.Errorf("the daemon is %v: %w", d.state.State(), bullpen.ErrClosed)
}

// errUnread means that the configuration was not read in time.
var errUnread = errors.New("the configuration file was not read in time: check the disk")

// read reads the configuration. If ctx or the daemon ends first, it returns
// errUnread, and the reading goroutine frees the turn.
func (d *Daemon) read(ctx context.Context) (next *settings.Settings, err error) {
	got := make(chan func())
	gone := make(chan struct{})
	go func() { // ends when the file has been read; if that hangs, no goroutine waits for it
		s, fault := d.load()
		select {
		case got <- func() { next, err = s, fault }:
		case <-gone:
			<-d.turn
		}
	}()
	select {
	case take := <-got:
		take()
		return next, err
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", errUnread, context.Cause(ctx))
	case <-d.stopping:
		err = fmt.Errorf("%w: %w", errUnread, d.notServing())
	}
	close(gone)
	return nil, err
}

// mostFault bounds the stored error of a reload, in bytes.
const mostFault = 4 << 10

// note records the result of a reload.
func (d *Daemon) note(changed []string, err error) {
	if err == nil {
		d.reloads.good.Add(1)
		d.reloads.fault.Store(nil)
		d.reloads.last.Store(time.Now().Unix())
		d.log.Info("the configuration was reloaded", "changed", changed)
		return
	}
	d.reloads.bad.Add(1)
	text := logs.Clean(err.Error())
	if len(text) > mostFault {
		text = strings.ToValidUTF8(text[:mostFault], "") + "\n..."
	}
	d.reloads.fault.Store(&text)
	for _, fault := range each(err) {
		d.log.Error("the configuration was not reloaded, the previous one stays in use", "fault", fault)
	}
}

// checkEmptied refuses a configuration without pools in place of one with pools,
// unless the new one has an explicit empty mapping: a file that is being written may
// be empty for a moment.
func checkEmptied(old, next *settings.Settings) error {
	if len(next.Pools) > 0 || len(old.Pools) == 0 || next.PoolsGiven {
		return nil
	}
	return settings.Faults{{File: next.Path, Key: "pools", Text: fmt.Sprintf("there are no pools, but there were %d: write `pools: {}` to remove them all", len(old.Pools))}}
}

// each returns the errors that err joins.
func each(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, each(e)...)
		}
		return all
	}
	return []error{err}
}

// change is what a reload does to one pool.
type change struct {
	name   string
	old    *pool       // nil for a new pool
	next   *generation // workers from now on; nil to keep the present ones, or for none
	fresh  bool        // next replaces the workers
	gone   bool        // the pool was removed from the configuration
	to     settings.Pool
	bounds [2]int // former bounds, to restore them
}

// takeOver puts next into effect. d.reloading is held.
func (d *Daemon) takeOver(ctx context.Context, next *settings.Settings) (changed []string, err error) {
	old := d.config()
	changed = next.Diff(old)
	restart := next.Restart(old)
	if err := checkEmptied(old, next); err != nil {
		return nil, err
	}
	plan, err := d.prepare(ctx, next)
	if err == nil && d.state.State() != Serving {
		d.undoAll(plan) //nolint:contextcheck // it is done although ctx may have ended
		err = d.notServing()
	}
	if err != nil {
		return nil, err
	}
	// Keys that need a restart keep their old values, so that the next reload reports
	// them again.
	kept := *old
	kept.Pools, kept.Grace = next.Pools, next.Grace
	kept.Schedules, kept.SchedulesGiven = next.Schedules, next.SchedulesGiven || old.SchedulesGiven
	d.mu.Lock()
	d.settings = &kept
	d.mu.Unlock()
	for i := range plan {
		d.carryOut(&plan[i]) //nolint:contextcheck // what it begins outlives the call
	}
	if !d.putPlanned(ctx) {
		d.replan()
	}
	for _, key := range restart {
		d.log.Warn("a changed setting takes effect only after a restart of the daemon", "key", key)
		if i := slices.Index(changed, key); i >= 0 {
			changed[i] += " (needs a restart)"
		}
	}
	return changed, nil
}

// prepare does all steps of a reload that may fail. If some fail, it undoes the
// others and returns all errors.
func (d *Daemon) prepare(ctx context.Context, next *settings.Settings) ([]change, error) {
	d.mu.Lock()
	now := maps.Clone(d.pools)
	d.mu.Unlock()
	var plan []change
	for _, name := range slices.Sorted(maps.Keys(next.Pools)) {
		plan = append(plan, change{name: name, old: now[name], to: next.Pools[name]})
		delete(now, name)
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		plan = append(plan, change{name: name, old: now[name], gone: true})
	}
	errs := make([]error, len(plan))
	var all sync.WaitGroup
	for i := range plan {
		if !plan[i].gone {
			all.Go(func() { errs[i] = d.prepareOne(ctx, &plan[i]) }) // ends when its first worker is ready or fails to start
		}
	}
	all.Wait()
	err := errors.Join(errs...)
	if err == nil {
		return plan, nil
	}
	d.undoAll(plan) //nolint:contextcheck // it is done although ctx may have ended
	return nil, err
}

// undoAll undoes prepare.
func (d *Daemon) undoAll(plan []change) {
	for i := range plan {
		d.undo(&plan[i])
	}
}

// undo undoes prepareOne.
func (d *Daemon) undo(c *change) {
	if c.next != nil {
		if err := c.next.end(context.Background(), closing); err != nil {
			d.log.Error("workers of a configuration that was not loaded did not end", "pool", c.name, "error", err)
		}
	}
	if c.bounds[1] > 0 {
		if err := c.old.scale(c.bounds[0], c.bounds[1]); err != nil {
			d.log.Error("a pool could not be resized back", "pool", c.name, "error", err)
		}
	}
}

// prepareOne prepares the change of one pool.
func (d *Daemon) prepareOne(ctx context.Context, c *change) error {
	if c.old != nil && !c.old.needsNew(&c.to) {
		return c.resize()
	}
	if len(c.to.Process.Command) == 0 {
		c.fresh = true
		return nil
	}
	g, err := d.generation(c.name, c.to)
	if err != nil && c.yield(d.budget) {
		g, err = d.generation(c.name, c.to)
	}
	if err != nil {
		return err
	}
	c.next, c.fresh = g, true
	// At least one worker, so that a broken command is found now.
	n := max(g.workers.Config().Min, 1)
	wait, cancel := context.WithTimeoutCause(ctx, g.workers.Config().StartTimeout+time.Second,
		errors.New("its workers were not ready in time; check that the budget has room for them"))
	defer cancel()
	stop := until(d.stopping, cancel)
	defer stop()
	if err := g.workers.Ready(wait, n); err != nil {
		// A fault of the configuration, not of the request, so it does not wrap
		// ErrStart.
		return fmt.Errorf("pool %q: %s", c.name, shownError(err).Error())
	}
	return nil
}

// yield returns budget reserved for the present workers if there is no room for both
// old and new ones, and reports whether it did. Then the present workers are the
// first to leave.
func (c *change) yield(b *process.Budget) bool {
	if b == nil || c.old == nil || c.old.generation() == nil {
		return false
	}
	c.old.mu.Lock()
	lower, upper := c.old.min, c.old.max
	c.old.mu.Unlock()
	if lower == 0 || c.old.scale(0, upper) != nil {
		return false
	}
	c.bounds = [2]int{lower, upper}
	return true
}

// needsNew reports whether next requires new workers.
func (p *pool) needsNew(next *settings.Pool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, b := p.settings.Process, next.Process
	a.Min, a.Max = b.Min, b.Max
	return !reflect.DeepEqual(a, b)
}

// resize applies the new configuration's bounds, if they changed.
func (c *change) resize() error {
	g := c.old.generation()
	if g == nil {
		return nil
	}
	probe := c.to.Process
	if probe.Max == 0 {
		probe.Max = max(runtime.GOMAXPROCS(0), probe.Min)
	}
	c.old.mu.Lock()
	lower, upper := c.old.min, c.old.max
	c.old.mu.Unlock()
	if lower == probe.Min && upper == probe.Max {
		return nil
	}
	if err := c.old.scale(probe.Min, probe.Max); err != nil {
		return err
	}
	c.bounds = [2]int{lower, upper}
	return nil
}

// carryOut puts one change into effect. It cannot fail.
func (d *Daemon) carryOut(c *change) {
	switch {
	case c.gone:
		d.mu.Lock()
		delete(d.pools, c.name)
		d.mu.Unlock()
		d.retire(c.old.replace(c.old.config(), nil), true)
	case c.old == nil:
		p := newPool(c.name, c.to, c.next)
		d.mu.Lock()
		d.pools[c.name] = p
		d.mu.Unlock()
		d.enter(c.next)
	case c.fresh:
		before := c.old.replace(c.to, c.next)
		d.enter(c.next)
		d.retire(before, c.next == nil)
	default:
		c.old.retune(c.to)
	}
}

// enter lets new workers take jobs.
func (d *Daemon) enter(g *generation) {
	if g == nil {
		return
	}
	if err := d.exported.Show(g.workers); err != nil {
		d.log.Error("the metrics of a pool are not shown", "pool", g.name, "error", err)
	}
	d.take(g)
}

// retire ends workers in the background: they finish their tasks in hand, within the
// grace.
func (d *Daemon) retire(g *generation, last bool) {
	if g == nil {
		return
	}
	d.retiring.Go(func() { // ends soon after the grace, or after Close; endPools waits for it
		ctx, cancel := context.WithTimeout(context.Background(), d.config().Grace)
		defer cancel()
		stop := until(d.aborted, cancel)
		defer stop()
		if err := g.end(ctx, level.Pool.Drain); err != nil {
			d.log.Error("workers that a reload replaced did not end", "pool", g.name, "error", err)
		}
		if last {
			d.exported.Hide(g.workers)
		}
	})
}

// retune applies settings that need no new workers.
func (p *pool) retune(s settings.Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settings = s
	if p.now != nil {
		p.now.retune(s)
		_ = p.resize() // fewer helpers may be allowed now; they finish their tasks in hand
	}
}
