package group

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// Backlog holds the jobs with a group of one queue while they wait in this program. The
// groups take turns, each within its limits. The backlog takes jobs from the store as
// they come, before an executor has a place for them, and renews their leases. The calls
// of Work for the queue take them from here.
//
// On a store that several nodes share it keeps few jobs of each group, so that the other
// nodes have some too. The rest it puts back into the store with a later time.
type Backlog struct {
	owner  *Groups
	name   string
	shared bool

	// runnable is the number of lanes that may have a job that can begin, plus the number
	// of jobs past their deadline.
	runnable atomic.Int64

	mu       sync.Mutex
	takers   [job.Priorities]engine.Taker // guarded by mu
	asked    [job.Priorities]int          // requested and not delivered; guarded by mu
	rings    [job.Priorities]ring         // whose turn it is; guarded by mu
	groups   map[string]*group            // by name; guarded by mu
	jobs     map[string]*Job              // by id; guarded by mu
	renewals []*Job                       // ordered by when their leases were renewed; guarded by mu
	dues     deadlines                    // of the jobs with a deadline; guarded by mu
	late     [job.Priorities][]*Job       // past their deadlines; guarded by mu
	cached   int                          // jobs that hold their records; guarded by mu
	waiting  [job.Priorities]int          // guarded by mu
	set      map[string]job.GroupLimits   // the limits set per group; guarded by mu
	defaults job.GroupLimits              // of the last call of Work; guarded by mu
	pace     pace                         // of all groups; guarded by mu
	calls    map[Call]struct{}            // the calls of Work; guarded by mu
	paused   bool                         // guarded by mu
	closed   bool                         // guarded by mu
	ticking  *time.Timer                  // nil before the first job; guarded by mu
	looked   time.Time                    // when the limits were last read; guarded by mu
	upkept   time.Time                    // when upkeep last ran; guarded by mu
	wanted   time.Time                    // when another node last wanted a slot; guarded by mu
}

// The bounds of a backlog.
const (
	// mostKept is how many jobs of a priority a backlog keeps if the store is not shared,
	// MostCached how many jobs in total it keeps with their payloads.
	mostKept   = 1 << 17
	MostCached = 4096
	// keptAhead is how many jobs are requested at a time.
	keptAhead = 512
	// On a shared store a backlog keeps about as many jobs of a group as begin here in a
	// second, and in total twice as many that can begin: at least fewest and at most
	// plenty. Of the jobs that may not begin now it keeps plenty.
	fewest = 32
	plenty = 4096
)

func newBacklog(owner *Groups, queue string) *Backlog {
	return &Backlog{
		owner: owner, name: queue, shared: owner.Engine != nil && owner.Engine.Shared(), groups: map[string]*group{}, jobs: map[string]*Job{},
		set: map[string]job.GroupLimits{}, calls: map[Call]struct{}{},
	}
}

// Idle reports whether no waiting job may begin. It costs one atomic load.
func (b *Backlog) Idle() bool { return b.runnable.Load() == 0 }

// group returns the group with a name, and creates it if necessary. b.mu is held.
func (b *Backlog) group(name string) *group {
	g := b.groups[name]
	if g == nil {
		g = &group{name: name}
		g.limits, g.own = b.limitsOf(name)
		b.groups[name] = g
	}
	return g
}

// line puts a group in the ring of a priority, if it has a job there. b.mu is held.
func (b *Backlog) line(g *group, p job.Priority) {
	if l := &g.lanes[p]; l.count > 0 && !l.inRing && !g.blocked {
		l.inRing = true
		b.rings[p].known = append(b.rings[p].known, g)
		b.runnable.Add(1)
	}
}

// lineFresh is like line, for a group that has just received a job. b.mu is held.
func (b *Backlog) lineFresh(g *group, p job.Priority) {
	if l := &g.lanes[p]; !l.inRing && !g.blocked {
		l.inRing = true
		b.rings[p].fresh = append(b.rings[p].fresh, g)
		b.runnable.Add(1)
	}
}

// Has reports whether a job of a priority may begin.
func (b *Backlog) Has(p job.Priority) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rings[p].size()+len(b.late[p]) > 0 && !b.paused
}

// Turns returns how many groups of a priority have turns.
func (b *Backlog) Turns(p job.Priority) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rings[p].size()
}

// Next returns the job whose turn it is, nil if none may begin. The job counts as running
// for its group until Freed.
func (b *Backlog) Next(p job.Priority) *Job {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.nextLate(p); k != nil {
		return k
	}
	for !b.paused {
		g, fresh := b.rings[p].pop()
		if g == nil {
			return nil
		}
		l := &g.lanes[p]
		if l.count == 0 {
			l.inRing = false
			b.runnable.Add(-1)
			b.drop(g)
			continue
		}
		if !b.admit(g, now) {
			l.inRing = false
			b.runnable.Add(-1)
			continue
		}
		k := l.pop()
		b.forget(k)
		if l.count > 0 || b.rings[p].size() > 0 {
			b.rings[p].used(g, fresh)
		} else { // no other group waits
			l.inRing = false
			b.runnable.Add(-1)
		}
		b.fill(p)
		return k
	}
	return nil
}

// admit reports whether one more job of a group may begin, and counts it. A group that is
// refused has no turns until one of its jobs may begin. b.mu is held.
func (b *Backlog) admit(g *group, now time.Time) bool {
	if most := g.limits.Concurrency; most > 0 && g.running >= b.slots(g, most, now) {
		g.blocked = true
		return false
	}
	if g.limits.Rate > 0 {
		if wait := b.token(g, now); wait > 0 {
			g.blocked = true
			b.wakeLater(g, wait)
			return false
		}
	}
	g.running++
	g.pace.began(now)
	b.pace.began(now)
	return true
}

// wakeLater gives a group its turns again after wait. b.mu is held.
func (b *Backlog) wakeLater(g *group, wait time.Duration) {
	if g.wake == nil {
		// Its goroutine ends at once; quiet stops the timer before it fires.
		g.wake = time.AfterFunc(wait, func() { b.awake(g) })
	}
}

func (b *Backlog) awake(g *group) {
	b.mu.Lock()
	g.wake = nil
	b.unblock(g)
	b.mu.Unlock()
	b.signal()
}

// unblock gives a group its turns again. b.mu is held.
func (b *Backlog) unblock(g *group) {
	g.blocked = false
	for p := range job.Priority(job.Priorities) {
		b.line(g, p)
		if b.shared {
			b.fill(p)
		}
	}
}

// Freed reports that a job from Next no longer runs. If it never began (unused), its
// group gets back its part of the rate.
func (b *Backlog) Freed(k *Job, unused bool) {
	b.mu.Lock()
	g := k.group
	g.running--
	unused = unused && !k.Late // a late job has taken no token
	if unused && g.limits.Rate > 0 {
		g.bucket.tokens = min(g.bucket.tokens+1, g.limits.AtOnce())
		b.quiet(g)
	}
	again := g.blocked && (g.wake == nil || b.shared)
	if again {
		b.unblock(g)
	}
	again = again && g.waiting > 0
	b.giveUp(g)
	b.drop(g)
	b.mu.Unlock()
	if again {
		b.signal()
	}
}

// forget removes a job from those that wait. b.mu is held.
func (b *Backlog) forget(k *Job) {
	if k.gone {
		return
	}
	k.gone = true
	if b.jobs[k.ID] == k {
		delete(b.jobs, k.ID)
	}
	if k.Stored != nil {
		b.cached--
	}
	k.group.waiting--
	b.waiting[k.level]--
}

// signal wakes the calls of Work.
func (b *Backlog) signal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.calls {
		c.Signal()
	}
}
