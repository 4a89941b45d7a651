package run

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// backlog is where jobs of one queue that have a group wait in this program, so that
// the groups have their turns one after the other, each within its limits. It
// takes them from the store as they come, before there is a place for them, and
// renews their leases; the calls of Work of the queue take them from here.
//
// On a store that other nodes share it keeps few of each group, so that the others
// have some too, and puts the rest aside in the store for a time.
type backlog struct {
	queue  *Node
	name   string
	shared bool

	// runnable is how many lanes may have a job that can begin, and how many jobs are
	// to be told that they are late.
	runnable atomic.Int64

	mu       sync.Mutex
	takers   [job.Priorities]engine.Taker // guarded by mu
	asked    [job.Priorities]int          // requested and not come; guarded by mu
	rings    [job.Priorities]ring         // whose turn it is; guarded by mu
	groups   map[string]*group            // guarded by mu
	jobs     map[string]*kept             // by id; guarded by mu
	signs    []*kept                      // in the order of their last signs of life; guarded by mu
	dues     deadlines                    // of those that have one; guarded by mu
	late     [job.Priorities][]*kept      // past their deadlines; guarded by mu
	cached   int                          // of jobs, those that hold their records; guarded by mu
	waiting  [job.Priorities]int          // guarded by mu
	set      map[string]job.GroupLimits   // guarded by mu
	defaults job.GroupLimits              // of the last call of Work; guarded by mu
	pace     pace                         // of all groups; guarded by mu
	runners  map[*runner]struct{}         // guarded by mu
	paused   bool                         // guarded by mu
	closed   bool                         // guarded by mu
	ticking  *time.Timer                  // guarded by mu; nil before the first job
	looked   time.Time                    // when the limits were last read; guarded by mu
	upkept   time.Time                    // when overdue things were last looked for; guarded by mu
	wanted   time.Time                    // when another node last wanted a place; guarded by mu
}

// What a backlog keeps.
const (
	// mostKept is how many jobs of a priority a backlog keeps of a store of its own,
	// and MostCached how many of all with their payloads.
	mostKept   = 1 << 17
	MostCached = 4096
	// keptAhead is how many are requested at a time.
	keptAhead = 512
	// On a store that others share it keeps about as many of a group as begin here
	// in a second, and of all that can begin twice as many as that; not fewer than
	// fewest, not more than plenty. Of what may not begin now it keeps plenty.
	fewest = 32
	// keptLong is for how long a job may be kept until it is looked up whether it was
	// canceled, on a store where another node may have done that.
	keptLong = time.Second
	plenty   = 4096
)

// backlog returns the backlog of a queue, nil where no call of Work has made one.
func (q *Node) backlog(queue string) *backlog {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.backlogs[queue]
}

// enterBacklog lets r take jobs from the backlog of its queue, which is made for the
// first one.
func (q *Node) enterBacklog(r *runner) (*backlog, error) {
	q.mu.Lock()
	y := q.backlogs[r.config.Queue]
	if y == nil {
		y = &backlog{
			queue: q, name: r.config.Queue, shared: q.Engine.Shared(), groups: map[string]*group{}, jobs: map[string]*kept{},
			set: map[string]job.GroupLimits{}, runners: map[*runner]struct{}{},
		}
		q.backlogs[r.config.Queue] = y
	}
	q.mu.Unlock()
	set, err := q.setLimits(q.Live, y.name)
	if err != nil {
		return nil, err
	}
	plain, err := q.Engine.Depth(q.Live, engine.Consumer{Queue: y.name, Priority: job.Normal.String()})
	if err != nil {
		return nil, err
	}
	y.mu.Lock()
	y.runners[r] = struct{}{}
	if r.ended() == nil { // or a later call, which began after this one had ended, has said what holds
		y.defaults = r.config.Group
	}
	y.paused, y.looked = plain.Paused, time.Now()
	y.closed = false
	err = y.take()
	y.mu.Unlock()
	if err != nil {
		y.leave(r)
		return nil, err
	}
	y.limit(set)
	return y, nil
}

// group returns what is known of a group. y.mu is held.
func (y *backlog) group(name string) *group {
	g := y.groups[name]
	if g == nil {
		g = &group{name: name}
		g.limits, g.own = y.limitsOf(name)
		y.groups[name] = g
	}
	return g
}

// line lets a group have its turns, if it has something. y.mu is held.
func (y *backlog) line(g *group, p job.Priority) {
	if l := &g.lanes[p]; l.count > 0 && !l.inRing && !g.blocked {
		l.inRing = true
		y.rings[p].known = append(y.rings[p].known, g)
		y.runnable.Add(1)
	}
}

// lineFresh is line for a group to which a job has come. y.mu is held.
func (y *backlog) lineFresh(g *group, p job.Priority) {
	if l := &g.lanes[p]; !l.inRing && !g.blocked {
		l.inRing = true
		y.rings[p].fresh = append(y.rings[p].fresh, g)
		y.runnable.Add(1)
	}
}

// has reports whether a job of a priority may begin.
func (y *backlog) has(p job.Priority) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.rings[p].size()+len(y.late[p]) > 0 && !y.paused
}

// turns is how many groups of a priority have turns.
func (y *backlog) turns(p job.Priority) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.rings[p].size()
}

// next gives the job whose turn it is, nil when none may begin. Its group has one
// more running from now on, until freed.
func (y *backlog) next(p job.Priority) *kept {
	now := time.Now()
	y.mu.Lock()
	defer y.mu.Unlock()
	if k := y.nextLate(p); k != nil {
		return k
	}
	for !y.paused {
		g, fresh := y.rings[p].pop()
		if g == nil {
			return nil
		}
		l := &g.lanes[p]
		if l.count == 0 {
			l.inRing = false
			y.runnable.Add(-1)
			y.drop(g)
			continue
		}
		if !y.admit(g, now) {
			l.inRing = false
			y.runnable.Add(-1)
			continue
		}
		k := l.pop()
		y.forget(k)
		if l.count > 0 || y.rings[p].size() > 0 {
			y.rings[p].used(g, fresh)
		} else { // there is nobody to stand behind
			l.inRing = false
			y.runnable.Add(-1)
		}
		y.fill(p)
		return k
	}
	return nil
}

// admit reports whether one more job of a group may begin, and counts it. One that
// may not is out of turn until it may. y.mu is held.
func (y *backlog) admit(g *group, now time.Time) bool {
	if most := g.limits.Concurrency; most > 0 && g.running >= y.places(g, most, now) {
		g.blocked = true
		return false
	}
	if g.limits.Rate > 0 {
		if wait := y.token(g, now); wait > 0 {
			g.blocked = true
			y.wakeLater(g, wait)
			return false
		}
	}
	g.running++
	g.pace.began(now)
	y.pace.began(now)
	return true
}

// wakeLater lets a group have its turns again after a time. y.mu is held.
func (y *backlog) wakeLater(g *group, wait time.Duration) {
	if g.wake == nil {
		// Its goroutine ends at once; stop ends it before it begins.
		g.wake = time.AfterFunc(wait, func() { y.awake(g) })
	}
}

func (y *backlog) awake(g *group) {
	y.mu.Lock()
	g.wake = nil
	y.unblock(g)
	y.mu.Unlock()
	y.signal()
}

// unblock lets a group have its turns again. y.mu is held.
func (y *backlog) unblock(g *group) {
	g.blocked = false
	for p := range job.Priority(job.Priorities) {
		y.line(g, p)
		if y.shared {
			y.fill(p)
		}
	}
}

// freed says that a job of a group runs no more. One that never began gives its part
// of the rate back.
func (y *backlog) freed(g *group, unused bool) {
	y.mu.Lock()
	g.running--
	if unused && g.limits.Rate > 0 {
		g.bucket.tokens = min(g.bucket.tokens+1, g.limits.AtOnce())
		y.quiet(g)
	}
	again := g.blocked && (g.wake == nil || y.shared)
	if again {
		y.unblock(g)
	}
	again = again && g.waiting > 0
	y.giveUp(g)
	y.drop(g)
	y.mu.Unlock()
	if again {
		y.signal()
	}
}

// forget lets a job wait no more. y.mu is held.
func (y *backlog) forget(k *kept) {
	if k.gone {
		return
	}
	k.gone = true
	if y.jobs[k.id] == k {
		delete(y.jobs, k.id)
	}
	if k.stored != nil {
		y.cached--
	}
	k.group.waiting--
	y.waiting[k.level]--
}

// signal wakes the calls of Work.
func (y *backlog) signal() {
	y.mu.Lock()
	defer y.mu.Unlock()
	for r := range y.runners {
		r.signal()
	}
}
