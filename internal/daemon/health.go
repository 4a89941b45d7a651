package daemon

import (
	"context"
	"sync"
	"time"
)

const (
	// sampleEvery is how often to check whether pools take waiting jobs, and whether
	// the store answers.
	sampleEvery = 5 * time.Second
	// samplePatience bounds how long the store may take to answer.
	samplePatience = 5 * time.Second
	// stuckAfter is how long jobs may wait although there is room.
	stuckAfter = time.Minute
)

// sample is the state of a pool at one time.
type sample struct {
	at      time.Time
	known   bool   // the store has returned how much waits
	waiting int    // jobs that could start
	paused  bool   // the pool is paused
	room    bool   // the workers could take a job
	failing bool   // workers do not start
	taken   uint64 // total number of jobs taken
}

// stands reports whether the pool could take a job at s.
func (s sample) stands() bool {
	return s.known && s.waiting > 0 && s.room && !s.paused && !s.failing
}

// standing returns since when a pool has taken no job although it could; zero if it
// takes jobs, or has none to take. It is derived from the value for the sample
// before. A store that does not answer does not count against this program.
func standing(since time.Time, before, now sample) time.Time {
	if !now.stands() || !before.stands() || now.taken != before.taken {
		return time.Time{}
	}
	if since.IsZero() {
		return before.at
	}
	return since
}

// health holds the health of the pools.
type health struct {
	mu    sync.Mutex
	pools map[string]*pulse // guarded by mu
	ready bool              // the daemon was ready at least once; guarded by mu
}

// pulse is the health of one pool.
type pulse struct {
	last  sample
	since time.Time // see standing
	// silent is since when the store has not answered; zero if it answers.
	silent time.Time
}

// stuck returns for how long the pool has taken no job although it could; 0 unless
// that is too long.
func (p *pulse) stuck(at time.Time) time.Duration {
	if p.since.IsZero() || at.Sub(p.since) < stuckAfter {
		return 0
	}
	return at.Sub(p.since)
}

// watchHealth samples the pools regularly, until ctx ends.
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
	now := d.samples(ctx)
	h := &d.health
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.pools
	h.pools = make(map[string]*pulse, len(now))
	for name, s := range now {
		next := &pulse{last: s}
		b := before[name]
		if !s.known {
			next.silent = s.at
			if b != nil && !b.silent.IsZero() {
				next.silent = b.silent
			}
		}
		if b != nil {
			next.since = standing(b.since, b.last, s)
			if stuck := next.stuck(s.at); stuck > 0 && b.stuck(b.last.at) == 0 {
				d.log.Error("a pool takes no jobs although its workers are free", "pool", name, "waiting", s.waiting, "for", stuck.Round(time.Second))
			}
		}
		h.pools[name] = next
	}
}

// samples samples all pools concurrently, so that a queue that does not answer does
// not delay the others.
func (d *Daemon) samples(ctx context.Context) map[string]sample {
	var all sync.WaitGroup
	var mu sync.Mutex
	now := map[string]sample{} // guarded by mu
	for _, p := range d.list() {
		g := p.generation()
		if g == nil {
			continue
		}
		all.Go(func() { // ends within samplePatience; waited for below
			s := d.sample(ctx, g)
			mu.Lock()
			defer mu.Unlock()
			now[p.name] = s
		})
	}
	all.Wait()
	return now
}

// sample samples one pool.
func (d *Daemon) sample(ctx context.Context, g *generation) sample {
	s := sample{at: time.Now(), room: g.workers.Capacity() > 0, failing: g.startError() != "", taken: g.limiter.taken.Load()}
	ctx, cancel := context.WithTimeout(ctx, samplePatience)
	defer cancel()
	depth, err := d.queue.Depth(ctx, g.name)
	s.known = err == nil
	for _, level := range depth {
		s.waiting += level.Waiting - level.Held
		s.paused = s.paused || level.Paused
	}
	return s
}
