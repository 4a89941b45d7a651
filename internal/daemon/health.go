package daemon

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/guard"
)

const (
	// sampleEvery is how often is looked whether pools take what waits for them.
	sampleEvery = 15 * time.Second
	// samplePatience bounds how long the store may take to tell.
	samplePatience = 5 * time.Second
	// stuckAfter is how long jobs may wait although there is room.
	stuckAfter = time.Minute
)

// sample is what a pool looked like at one time.
type sample struct {
	at      time.Time
	known   bool   // the store has told how much waits
	waiting int    // jobs that could start
	paused  bool   // none is handed out
	room    bool   // the workers could take one
	failing bool   // workers do not start
	taken   uint64 // jobs handed over until now
}

// stands tells whether the pool could take something at s.
func (s sample) stands() bool {
	return s.known && s.waiting > 0 && s.room && !s.paused && !s.failing
}

// standing is since when a pool has taken nothing although it could; zero for one
// that takes, or has nothing to take. It follows from what was known at the sample
// before. A store that does not tell is no fault of this program.
func standing(since time.Time, before, now sample) time.Time {
	if !now.stands() || !before.stands() || now.taken != before.taken {
		return time.Time{}
	}
	if since.IsZero() {
		return before.at
	}
	return since
}

// health has what is known of how the pools do.
type health struct {
	mu    sync.Mutex
	pools map[string]*pulse // guarded by mu
	ready bool              // was ready at least once; guarded by mu
}

// pulse is what is known of one pool.
type pulse struct {
	last  sample
	since time.Time // see standing
}

// watchHealth looks at the pools from time to time, until ctx ends.
func (d *Daemon) watchHealth(ctx context.Context) error {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.examine(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// examine takes a sample of each pool.
func (d *Daemon) examine(ctx context.Context) {
	now := map[string]sample{}
	for _, p := range d.list() {
		if g := p.generation(); g != nil {
			now[p.name] = d.sample(ctx, g)
		}
	}
	h := &d.health
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.pools
	h.pools = make(map[string]*pulse, len(now))
	for name, s := range now {
		next := &pulse{last: s}
		if b := before[name]; b != nil {
			next.since = standing(b.since, b.last, s)
		}
		h.pools[name] = next
	}
}

// sample looks at one pool.
func (d *Daemon) sample(ctx context.Context, g *generation) sample {
	s := sample{at: time.Now(), room: g.workers.Capacity() > 0, failing: g.startError() != "", taken: g.takes()}
	ctx, cancel := context.WithTimeout(ctx, samplePatience)
	defer cancel()
	depth, err := d.queue.Depth(ctx, g.name)
	s.known = err == nil
	for _, level := range depth {
		s.waiting += level.Waiting
		s.paused = s.paused || level.Paused
	}
	return s
}

// check is one line of a probe's answer.
type check struct {
	good bool
	name string
	says string
}

// checks are the answer of a probe.
type checks []check

func (c checks) ok() bool {
	return !slices.ContainsFunc(c, func(one check) bool { return !one.good })
}

func (c *checks) add(good bool, name, format string, args ...any) {
	*c = append(*c, check{good, name, fmt.Sprintf(format, args...)})
}

// String gives a line for each check.
func (c checks) String() string {
	var b strings.Builder
	for _, one := range c {
		word := "ok  "
		if !one.good {
			word = "FAIL"
		}
		fmt.Fprintf(&b, "%s %s: %s\n", word, one.name, one.says)
	}
	return b.String()
}

// liveness tells whether the program should go on: pools take what they could
// take. It does not depend on how much waits, nor on a store elsewhere.
func (d *Daemon) liveness() (c checks) {
	state := d.state.State()
	c.add(state != Closed, "daemon", "%v", state)
	if state != Serving {
		return c
	}
	if err := d.queue.Err(); err != nil {
		c.add(false, "queue", "its store has failed, and can be used again after a restart: %v", err)
	}
	now := time.Now()
	d.health.mu.Lock()
	defer d.health.mu.Unlock()
	for _, p := range d.list() {
		pulse := d.health.pools[p.name]
		switch {
		case pulse == nil:
		case !pulse.since.IsZero() && now.Sub(pulse.since) >= stuckAfter:
			c.add(false, "pool "+p.name, "%d jobs wait, workers have room, and none was taken for %v", pulse.last.waiting, now.Sub(pulse.since).Round(time.Second))
		default:
			c.add(true, "pool "+p.name, "it takes what it can")
		}
	}
	return c
}

// readiness tells whether jobs should be sent here. When the program starts, one of
// the pools must have shown that it can run something, so that a rollout of what
// cannot stops; later on the queue takes jobs although no worker starts, and the
// pool's state and the log say so.
func (d *Daemon) readiness() (c checks) {
	state := d.state.State()
	c.add(state == Serving, "daemon", "%v", state)
	if state != Serving {
		return c
	}
	if err := d.queue.Err(); err != nil {
		c.add(false, "queue", "its store has failed: %v", err)
	} else {
		c.add(true, "queue", "it takes jobs")
	}
	d.mu.Lock()
	taking := d.taking
	d.mu.Unlock()
	d.health.mu.Lock()
	before := d.health.ready
	d.health.mu.Unlock()
	able, pools := 0, d.list()
	slices.SortFunc(pools, func(a, b *pool) int { return strings.Compare(a.name, b.name) })
	var says checks
	with := 0
	for _, p := range pools {
		g := p.generation()
		if g == nil {
			continue
		}
		with++
		can, text := g.able()
		if can {
			able++
		}
		says.add(can, "pool "+p.name, "%s", text)
	}
	enough := before || with == 0 || able > 0
	for _, one := range says {
		c = append(c, check{one.good || enough, one.name, one.says})
	}
	if !taking {
		c.add(false, "pools", "they do not take jobs yet")
	}
	return c
}

// able tells whether g has a worker, or may well have one when it needs it.
func (g *generation) able() (can bool, says string) {
	s := g.workers.Stats()
	if s.Idle+s.Busy > 0 {
		return true, fmt.Sprintf("%d workers idle, %d busy", s.Idle, s.Busy)
	}
	if err := g.startError(); err != "" {
		return false, "its workers do not start: " + err
	}
	if g.workers.Config().Min > 0 {
		return false, "its first worker is starting"
	}
	return true, "it starts workers when jobs come"
}

// judge looks whether the daemon is ready for the first time.
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

// checks are the routes of the probes.
func (d *Daemon) checks() []guard.Route {
	probe := func(ask func() checks) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c := ask()
			h := w.Header()
			h.Set("Content-Type", "text/plain; charset=utf-8")
			h.Set("Cache-Control", "no-store")
			h.Set("X-Content-Type-Options", "nosniff")
			if !c.ok() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_, _ = w.Write([]byte(c.String())) // who asked may be gone
		})
	}
	return []guard.Route{
		{Method: http.MethodGet, Pattern: "/livez", Role: guard.None, Handler: probe(d.liveness)},
		{Method: http.MethodGet, Pattern: "/readyz", Role: guard.None, Handler: probe(d.readiness)},
	}
}
