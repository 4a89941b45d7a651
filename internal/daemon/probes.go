package daemon

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/logs"
)

// The paths of the probes.
const (
	livePath  = "/livez"
	readyPath = "/readyz"
)

// The names of checks, which are public.
const (
	checkDaemon    = "daemon"
	checkQueue     = "queue"
	checkPools     = "pools"
	checkSchedules = "schedules"
)

// seeLog ends the public description of a fault.
const seeLog = " (see the log)"

// check is the result of one check of a probe.
type check struct {
	good  bool
	name  string // one of the names above
	fault string // what is wrong, for all callers: a fixed text without names
	pool  string // the pool; empty if it is about none
	says  string // details, for callers that may read
}

// checks are the answer of a probe.
type checks []check

func (c checks) ok() bool {
	return !slices.ContainsFunc(c, func(one check) bool { return !one.good })
}

// String returns a line for each check, with all details.
func (c checks) String() string {
	var b strings.Builder
	for _, one := range c {
		word := "ok  "
		if !one.good {
			word = "FAIL"
		}
		about := one.name
		if one.pool != "" {
			about = "pool " + one.pool
		}
		fmt.Fprintf(&b, "%s %s: %s\n", word, about, one.says)
	}
	return b.String()
}

// public returns a line for each name, without details.
func (c checks) public() string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, one := range c {
		if seen[one.name] {
			continue
		}
		seen[one.name] = true
		fault := slices.IndexFunc(c, func(other check) bool { return other.name == one.name && !other.good })
		if fault < 0 {
			fmt.Fprintf(&b, "ok %s\n", one.name)
			continue
		}
		fmt.Fprintf(&b, "FAIL %s: %s\n", one.name, c[fault].fault)
	}
	return b.String()
}

// liveness reports whether the program should keep running: pools take the jobs that
// they can take. It depends neither on how much waits, nor on a remote store.
func (d *Daemon) liveness() (c checks) {
	state := d.state.State()
	c = append(c, check{state != Closed, checkDaemon, "it has ended", "", state.String()})
	if state != Serving {
		return c
	}
	if err := d.queue.Err(); err != nil {
		c = append(c, check{false, checkQueue, "its store has failed" + seeLog, "", "its store has failed and needs a restart of the daemon: " + logs.Clean(err.Error())})
	}
	now := time.Now()
	d.health.mu.Lock()
	defer d.health.mu.Unlock()
	for _, p := range d.list() {
		pulse := d.health.pools[p.name]
		if pulse == nil {
			continue
		}
		one := check{true, checkPools, "jobs wait and workers are free, but no job is taken" + seeLog, p.name, "jobs are taken as workers are free"}
		if stuck := pulse.stuck(now); stuck > 0 {
			one.good, one.says = false, fmt.Sprintf("%d jobs wait and workers are free, but none was taken for %v", pulse.last.waiting, stuck.Round(time.Second))
		}
		c = append(c, one)
	}
	return c
}

// readiness reports whether jobs should be sent here. At the start, one of the pools
// must have shown that it can run something, so that a faulty rollout stops. Later
// the queue accepts jobs even if no worker starts; the pool's state and the log
// report that.
func (d *Daemon) readiness() (c checks) {
	state := d.state.State()
	says := "it is " + state.String()
	c = append(c, check{state == Serving, checkDaemon, says, "", says})
	switch {
	case state == Starting && d.opening.Load():
		return append(c, check{false, checkQueue, "the daemon waits for the queue" + seeLog, "", "the daemon waits for the queue: " + d.queueWaits()})
	case state != Serving:
		return c
	}
	silent := d.silences()
	switch err := d.queue.Err(); {
	case err != nil:
		c = append(c, check{false, checkQueue, "its store has failed" + seeLog, "", "its store has failed: " + logs.Clean(err.Error())})
	case len(silent) > 0:
		c = append(c, silent...)
	default:
		c = append(c, check{true, checkQueue, "", "", "it accepts jobs"})
	}
	d.mu.Lock()
	taking, scheduled := d.taking, d.scheduled
	d.mu.Unlock()
	c = append(c, d.poolsReady()...)
	if !taking {
		const says = "they do not run jobs yet"
		c = append(c, check{false, checkPools, says, "", says})
	}
	if !scheduled {
		const says = "the schedules of the configuration are not stored yet"
		c = append(c, check{false, checkSchedules, says + seeLog, "", says})
	}
	return c
}

// silences returns a check for each pool whose queue the store did not answer for
// last time: jobs can neither be added nor taken there.
func (d *Daemon) silences() (c checks) {
	d.health.mu.Lock()
	defer d.health.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(d.health.pools)) {
		if since := d.health.pools[name].silent; !since.IsZero() {
			c = append(c, check{false, checkQueue, "its store does not answer" + seeLog, name,
				"its jobs cannot run: the store has not answered for " + time.Since(since).Round(time.Second).String()})
		}
	}
	return c
}

// poolsReady checks for each pool whether it can run something.
func (d *Daemon) poolsReady() (c checks) {
	d.health.mu.Lock()
	enough := d.health.ready
	d.health.mu.Unlock()
	pools := d.list()
	slices.SortFunc(pools, func(a, b *pool) int { return strings.Compare(a.name, b.name) })
	for _, p := range pools {
		if g := p.generation(); g != nil {
			one := g.able()
			enough = enough || one.good
			c = append(c, one)
		}
	}
	for i := range c {
		c[i].good = c[i].good || enough
	}
	return c
}

// able checks whether g has a worker, or probably gets one when needed.
func (g *generation) able() check {
	s := g.workers.Stats()
	c := check{good: true, name: checkPools, pool: g.name}
	switch err := g.startError(); {
	case s.Idle+s.Busy > 0:
		c.says = fmt.Sprintf("%d workers idle, %d busy", s.Idle, s.Busy)
	case err != "":
		c.good, c.says, c.fault = false, "its workers do not start: "+err, "no worker starts"+seeLog
	case g.workers.Config().Min > 0:
		c.good, c.says, c.fault = false, "its first worker is starting", "the first workers are starting"
	default:
		c.says = "it starts workers when jobs come"
	}
	return c
}

// judge checks whether the daemon is ready for the first time.
func (d *Daemon) judge() {
	d.health.mu.Lock()
	before := d.health.ready
	d.health.mu.Unlock()
	if before || d.state.State() != Serving || !d.readiness().ok() {
		return
	}
	d.health.mu.Lock()
	d.health.ready = true
	d.health.mu.Unlock()
	d.readyOnce.Do(func() {
		d.log.Info("the daemon is ready", "took", time.Since(d.started).Round(time.Millisecond))
		close(d.ready)
	})
}

// checks returns the routes of the probes. Names and causes are for callers that may
// read. With open set, callers are not identified and get only the public part.
func (d *Daemon) checks(open bool) []access.Route {
	probe := func(ask func() checks) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c := ask()
			text := c.public()
			if !open && access.RoleOf(r.Context()) >= access.Read {
				text = c.String()
			}
			h := w.Header()
			h.Set("Content-Type", "text/plain; charset=utf-8")
			h.Set("Cache-Control", "no-store")
			h.Set("X-Content-Type-Options", "nosniff")
			if !c.ok() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = w.Write([]byte(text)) // the caller may have disconnected
		})
	}
	return []access.Route{
		{Method: http.MethodGet, Pattern: livePath, Role: access.None, Handler: probe(d.liveness)},
		{Method: http.MethodGet, Pattern: readyPath, Role: access.None, Handler: probe(d.readiness)},
	}
}
