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
	"github.com/bullpen-run/bullpen/process"
)

// Reload reads the configuration again and takes it over, and tells which keys have
// changed. New workers are ready before the old ones go. When something is
// wrong with the configuration, or workers do not start with it, nothing changes.
// It returns when the new configuration is in force; what the old workers have in
// hand may take longer.
func (d *Daemon) Reload(ctx context.Context) (changed []string, err error) {
	if d.load == nil {
		return nil, errors.New("this daemon was started without a way to read its configuration again")
	}
	select {
	case d.turn <- struct{}{}:
	case <-d.stopping:
		return nil, d.notServing()
	case <-ctx.Done():
		return nil, fmt.Errorf("another reload has not ended: %w", context.Cause(ctx))
	}
	next, err := d.read(ctx)
	if errors.Is(err, errUnread) { // the turn ends with the reading
		return nil, err
	}
	defer func() { <-d.turn }()
	// What ends the daemon waits for what is taken over, not for what is read: that
	// may be on a disk which does not answer.
	d.reloading <- struct{}{} // nobody has it but the end of the daemon
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

// notServing says why nothing is read again.
func (d *Daemon) notServing() error {
	return fmt.Errorf("the daemon is %v: %w", d.state.State(), bullpen.ErrClosed)
}

// errUnread says that nobody waits any more for a configuration to be read.
var errUnread = errors.New("the configuration was not read in time: does the disk with the file answer?")

// read reads the configuration. Where ctx or the daemon ends first, it returns
// errUnread, and whoever reads ends the turn.
func (d *Daemon) read(ctx context.Context) (next *settings.Settings, err error) {
	got := make(chan func())
	gone := make(chan struct{})
	go func() { // ends when the file has been read; where it hangs nobody waits for it
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

// mostFault bounds what is kept of why a reload failed, in bytes.
const mostFault = 4 << 10

// note notes how a reload went.
func (d *Daemon) note(changed []string, err error) {
	if err == nil {
		d.reloads.good.Add(1)
		d.reloads.fault.Store(nil)
		d.reloads.last.Store(time.Now().Unix())
		d.log.Info("the configuration was read again", "changed", changed)
		return
	}
	d.reloads.bad.Add(1)
	text := logs.Clean(err.Error())
	if len(text) > mostFault {
		text = strings.ToValidUTF8(text[:mostFault], "") + "\n..."
	}
	d.reloads.fault.Store(&text)
	for _, fault := range each(err) {
		d.log.Error("the configuration was not taken over, the one before stays in force", "fault", fault)
	}
}

// checkEmptied refuses a configuration without pools in place of one with some,
// unless it says so: a file that is being written may be empty for a moment.
func checkEmptied(old, next *settings.Settings) error {
	if len(next.Pools) > 0 || len(old.Pools) == 0 || next.PoolsGiven {
		return nil
	}
	return settings.Faults{{File: next.Path, Key: "pools", Text: fmt.Sprintf("there are none, and there were %d: write `pools: {}` to have none", len(old.Pools))}}
}

// each gives the errors that err joins.
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
	old    *pool       // nil for one that is new
	next   *generation // workers to be used from now on; nil for those that there are, or none
	fresh  bool        // next takes their place
	gone   bool        // the pool is not in the configuration any more
	to     settings.Pool
	bounds [2]int // before a change of them, to go back to
}

// takeOver brings next into force. d.reloading is held.
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
	// What only a restart changes is as it was, so that the next reload tells of it again.
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
		d.log.Warn("a changed setting needs a restart of the daemon to have an effect", "key", key)
		if i := slices.Index(changed, key); i >= 0 {
			changed[i] += " (needs a restart)"
		}
	}
	return changed, nil
}

// prepare makes all that a new configuration needs and that may fail. When
// something does, what it has made is ended, and the error has all of it.
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
			all.Go(func() { errs[i] = d.prepareOne(ctx, &plan[i]) }) // ends when its first worker is ready or does not start
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

// undoAll takes back what prepare has done.
func (d *Daemon) undoAll(plan []change) {
	for i := range plan {
		d.undo(&plan[i])
	}
}

// undo takes back what prepareOne has done.
func (d *Daemon) undo(c *change) {
	if c.next != nil {
		if err := c.next.end(context.Background(), closing(c.next.workers)); err != nil {
			d.log.Error("workers of a configuration that was not taken over did not end", "pool", c.name, "error", err)
		}
	}
	if c.bounds[1] > 0 {
		if err := c.old.scale(c.bounds[0], c.bounds[1]); err != nil {
			d.log.Error("a pool could not be given its size again", "pool", c.name, "error", err)
		}
	}
}

// prepareOne makes ready what one pool needs.
func (d *Daemon) prepareOne(ctx context.Context, c *change) error {
	if c.old != nil && !c.old.needsNew(&c.to) {
		return c.resize()
	}
	if len(c.to.Process.Command) == 0 {
		c.fresh = true
		return nil
	}
	g, err := d.generation(c.name, c.to) //nolint:contextcheck // a pool bounds its own starts
	if err != nil && c.yield(d.budget) {
		g, err = d.generation(c.name, c.to) //nolint:contextcheck // as above
	}
	if err != nil {
		return err
	}
	c.next, c.fresh = g, true
	// One worker at least, so that a command that does not work is seen now.
	n := max(g.workers.Config().Min, 1)
	wait, cancel := context.WithTimeoutCause(ctx, g.workers.Config().StartTimeout+time.Second,
		errors.New("its workers are not ready in time; is there room for them in the budget?"))
	defer cancel()
	stop := until(d.stopping, cancel)
	defer stop()
	if err := g.workers.Ready(wait, n); err != nil {
		// A fault of the configuration, not of the request: it is no ErrStart.
		return fmt.Errorf("pool %q: %s", c.name, told(err).Error())
	}
	return nil
}

// yield takes back what the budget has promised to the workers of now, where there
// is no room for both, and tells whether it has. Then they are the first to leave.
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

// needsNew reports whether workers of the pool have to be started otherwise than
// they were.
func (p *pool) needsNew(next *settings.Pool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, b := p.settings.Process, next.Process
	a.Min, a.Max = b.Min, b.Max
	return !reflect.DeepEqual(a, b)
}

// resize gives the pool the size of the new configuration, if it has another one.
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

// carryOut brings one change into force. It does not fail.
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
	if err := d.processes.Replace(g.workers); err != nil {
		d.log.Error("the metrics of a pool are not shown", "pool", g.name, "error", err)
	}
	d.take(g)
}

// retire ends workers in the background: they finish what they have in hand,
// within the grace.
func (d *Daemon) retire(g *generation, last bool) {
	if g == nil {
		return
	}
	d.retiring.Go(func() { // ends soon after the grace at the latest, or after Close; endPools waits for it
		ctx, cancel := context.WithTimeout(context.Background(), d.config().Grace)
		defer cancel()
		stop := until(d.aborted, cancel)
		defer stop()
		if err := g.end(ctx, draining(g.workers)); err != nil {
			d.log.Error("workers that a reload has replaced did not end", "pool", g.name, "error", err)
		}
		if last {
			d.processes.Remove(g.workers)
		}
	})
}

// retune gives p settings that need no other workers.
func (p *pool) retune(s settings.Pool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settings = s
	if p.now != nil {
		p.now.retune(s)
		_ = p.resize() // there may be fewer helpers now; what they have in hand is finished
	}
}
