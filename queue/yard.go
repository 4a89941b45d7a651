package queue

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// yard is where jobs of one queue that have a group wait in this program, so that
// the groups have their turns one after the other, each within its limits. It
// takes them from the store as they come, before there is a place for them, and
// renews their leases; the calls of Work of the queue take them from here.
//
// On a store that other nodes share it keeps few of each group, so that the others
// have some too, and puts the rest aside in the store for a time.
type yard struct {
	queue  *Queue
	name   string
	shared bool

	// runnable is how many lanes may have a job that can begin.
	runnable atomic.Int64

	mu       sync.Mutex
	takers   [priorities]engine.Taker // guarded by mu
	asked    [priorities]int          // requested and not come; guarded by mu
	rings    [priorities][]*group     // whose turn it is, at the front; guarded by mu
	groups   map[string]*group        // guarded by mu
	jobs     map[string]*kept         // by id; guarded by mu
	signs    []*kept                  // in the order of their last signs of life; guarded by mu
	cached   int                      // of jobs, those that hold their records; guarded by mu
	waiting  [priorities]int          // guarded by mu
	set      map[string]GroupLimits   // guarded by mu
	defaults GroupLimits              // of the last call of Work; guarded by mu
	pace     pace                     // of all groups; guarded by mu
	runners  map[*runner]struct{}     // guarded by mu
	paused   bool                     // guarded by mu
	closed   bool                     // guarded by mu
	ticking  *time.Timer              // guarded by mu; nil before the first job
	looked   time.Time                // when the limits were last read; guarded by mu
}

const (
	// mostKept is how many jobs of a priority a yard keeps of a store of its own,
	// and mostCached how many of all with their payloads.
	mostKept   = 1 << 17
	mostCached = 4096
	// keptAhead is how many are requested at a time.
	keptAhead = 512
	// On a store that others share it keeps about as many of a group as begin here
	// in a second, and of all that can begin twice as many as that; not fewer than
	// fewest, not more than plenty. Of what may not begin now it keeps plenty.
	fewest = 32
	plenty = 4096
)

// yard returns the yard of a queue, nil where no call of Work has made one.
func (q *Queue) yard(queue string) *yard {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.yards[queue]
}

// enterYard lets r take jobs from the yard of its queue, which is made for the
// first one.
func (q *Queue) enterYard(r *runner) (*yard, error) {
	q.mu.Lock()
	y := q.yards[r.config.Queue]
	if y == nil {
		y = &yard{
			queue: q, name: r.config.Queue, shared: q.engine.Shared(), groups: map[string]*group{}, jobs: map[string]*kept{},
			set: map[string]GroupLimits{}, runners: map[*runner]struct{}{},
		}
		q.yards[r.config.Queue] = y
	}
	q.mu.Unlock()
	set, err := q.setLimits(q.live, y.name)
	if err != nil {
		return nil, err
	}
	plain, err := q.engine.Depth(q.live, engine.Consumer{Queue: y.name, Priority: Normal.String()})
	if err != nil {
		return nil, err
	}
	y.mu.Lock()
	y.runners[r] = struct{}{}
	y.defaults, y.paused, y.looked = r.config.Group, plain.Paused, time.Now()
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

// take begins to take from the consumers. y.mu is held.
func (y *yard) take() error {
	for p := range Priority(priorities) {
		if y.takers[p] != nil {
			continue
		}
		t, err := y.queue.engine.Take(y.consumer(p), func(d engine.Delivery) { y.arrived(p, d) }, func(n int) { y.returned(p, n) })
		if err != nil {
			return err
		}
		y.takers[p] = t
		y.asked[p] = 0
		y.fill(p)
	}
	return nil
}

func (y *yard) consumer(p Priority) engine.Consumer {
	return engine.Consumer{Queue: y.name, Priority: p.String(), Grouped: true}
}

// leave says that r takes no more. On a store that others share the last one
// gives back what is kept.
func (y *yard) leave(r *runner) {
	y.mu.Lock()
	delete(y.runners, r)
	last := len(y.runners) == 0
	y.mu.Unlock()
	if last && y.shared {
		y.stop(true)
	}
}

// stop ends the taking, and gives back what is kept, where that is of use.
func (y *yard) stop(giveBack bool) {
	y.mu.Lock()
	y.closed = true
	takers := y.takers
	y.takers = [priorities]engine.Taker{}
	if y.ticking != nil {
		y.ticking.Stop()
		y.ticking = nil
	}
	y.mu.Unlock()
	for _, t := range takers {
		if t != nil {
			t.Stop()
		}
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, k := range y.jobs {
		if y.forget(k); giveBack {
			k.delivery.Nak(0)
		}
	}
	for _, g := range y.groups {
		y.quiet(g)
		g.lanes, g.blocked = [priorities]lane{}, false
		y.drop(g)
	}
	y.signs, y.rings = nil, [priorities][]*group{}
	y.runnable.Store(0)
}

// arrived keeps a job that came.
func (y *yard) arrived(p Priority, d engine.Delivery) {
	now := time.Now()
	k := &kept{delivery: d, id: engine.LastToken(d.Subject), level: p, came: now, extended: now}
	s, err := decodeJob(k.id, d.Data)
	name := ""
	if err == nil {
		name = s.job.Group
		k.stored = s
	}
	y.mu.Lock()
	y.asked[p]--
	if y.takers[p] == nil || y.jobs[k.id] != nil {
		// Nobody works any more, or its lease ended while it was kept here.
		if other := y.jobs[k.id]; other != nil {
			other.delivery, k = d, nil
		} else {
			d.Nak(0)
		}
		y.fill(p)
		y.mu.Unlock()
		return
	}
	g := y.group(name)
	k.group = g
	if at, aside := y.aside(k, now); aside {
		y.fill(p)
		y.mu.Unlock()
		y.queue.putAside(s, d, at)
		return
	}
	if y.cached++; y.cached > mostCached {
		y.cached--
		k.stored, k.delivery.Data = nil, nil
	}
	y.jobs[k.id] = k
	y.signs = append(y.signs, k)
	g.lanes[p].push(k)
	g.waiting++
	y.waiting[p]++
	y.line(g, p)
	y.tick()
	y.fill(p)
	y.mu.Unlock()
	y.signal()
}

// aside tells whether a job is put aside, and until when: on a store that others
// share, where its group has enough here. y.mu is held.
func (y *yard) aside(k *kept, now time.Time) (at time.Time, aside bool) {
	if !y.shared || k.stored == nil {
		return time.Time{}, false
	}
	g, kept := k.group, k.group.lanes[k.level].count
	if kept < g.pace.second() && !(g.blocked && len(y.jobs) >= plenty) {
		return time.Time{}, false
	}
	return g.pace.aside(now, k.stored.again, kept), true
}

// putAside lets a job come again later.
func (q *Queue) putAside(s *stored, d engine.Delivery, at time.Time) {
	c, _, _ := parseSubject(d.Message)
	s.job.Queue = c.Queue
	s.job.Priority, _ = ParsePriority(c.Priority) // the consumer's name is one
	s.again, s.job.At = true, at
	q.engine.Put(s.message(), func(_ uint64, err error) {
		if err != nil {
			d.Nak(soonest)
			return
		}
		d.Ack()
	})
}

// returned counts requests that were not served, and makes new ones.
func (y *yard) returned(p Priority, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.asked[p] -= n
	y.fill(p)
}

// fill requests as many more jobs as may be kept. y.mu is held.
func (y *yard) fill(p Priority) {
	if y.takers[p] == nil {
		return
	}
	ahead, room := keptAhead, mostKept-y.waiting[p]
	if y.shared {
		ahead = y.pace.second()
		room = max(2*ahead-y.canBegin(), 0)
	}
	if n := min(ahead, room) - y.asked[p]; n > ahead/2 {
		y.asked[p] += n
		y.takers[p].Request(n, true)
	}
}

// canBegin is how many jobs wait for a place only. y.mu is held.
func (y *yard) canBegin() (n int) {
	for _, g := range y.groups {
		if !g.blocked {
			n += g.waiting
		}
	}
	return n
}

// group returns what is known of a group. y.mu is held.
func (y *yard) group(name string) *group {
	g := y.groups[name]
	if g == nil {
		g = &group{name: name}
		g.limits, g.own = y.limitsOf(name)
		y.groups[name] = g
	}
	return g
}

// limitsOf gives the limits of a group. y.mu is held.
func (y *yard) limitsOf(name string) (l GroupLimits, own bool) {
	if l, own = y.set[name]; own && name != "" {
		return l, true
	}
	if l, set := y.set[""]; set {
		return l, false
	}
	return y.defaults, false
}

// line lets a group have its turns, if it has something. y.mu is held.
func (y *yard) line(g *group, p Priority) {
	if l := &g.lanes[p]; l.count > 0 && !l.inRing && !g.blocked {
		l.inRing = true
		y.rings[p] = append(y.rings[p], g)
		y.runnable.Add(1)
	}
}

// has tells whether a job of a priority may begin.
func (y *yard) has(p Priority) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.rings[p]) > 0 && !y.paused
}

// turns is how many groups of a priority have turns.
func (y *yard) turns(p Priority) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.rings[p])
}

// next gives the job whose turn it is, nil when none may begin. Its group has one
// more running from now on, until freed.
func (y *yard) next(p Priority) *kept {
	now := time.Now()
	y.mu.Lock()
	defer y.mu.Unlock()
	for len(y.rings[p]) > 0 && !y.paused {
		g := y.rings[p][0]
		y.rings[p][0] = nil
		y.rings[p] = y.rings[p][1:]
		g.lanes[p].inRing = false
		y.runnable.Add(-1)
		if g.lanes[p].count == 0 || !y.admit(g, now) {
			continue
		}
		k := g.lanes[p].pop()
		y.forget(k)
		y.line(g, p)
		y.fill(p)
		return k
	}
	return nil
}

// admit tells whether one more job of a group may begin, and counts it. One that
// may not is out of turn until it may. y.mu is held.
func (y *yard) admit(g *group, now time.Time) bool {
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
func (y *yard) wakeLater(g *group, wait time.Duration) {
	if g.wake == nil {
		// Its goroutine ends at once; stop ends it before it begins.
		g.wake = time.AfterFunc(wait, func() { y.awake(g) })
	}
}

func (y *yard) awake(g *group) {
	y.mu.Lock()
	g.wake = nil
	y.unblock(g)
	y.mu.Unlock()
	y.signal()
}

// unblock lets a group have its turns again. y.mu is held.
func (y *yard) unblock(g *group) {
	g.blocked = false
	for p := range Priority(priorities) {
		y.line(g, p)
		if y.shared {
			y.fill(p)
		}
	}
}

// quiet ends what a group waits for. y.mu is held.
func (y *yard) quiet(g *group) {
	if g.wake != nil {
		g.wake.Stop()
		g.wake = nil
	}
}

// freed says that a job of a group runs no more.
func (y *yard) freed(g *group) {
	y.mu.Lock()
	g.running--
	again := g.blocked && (g.wake == nil || y.shared)
	if again {
		y.unblock(g)
	}
	again = again && g.waiting > 0
	y.drop(g)
	y.mu.Unlock()
	if again {
		y.signal()
	}
}

// drop forgets a group that has nothing. One with a rate is kept until its bucket
// is full, or it would be full at once. y.mu is held.
func (y *yard) drop(g *group) {
	if g.waiting > 0 || g.running > 0 || g.claim.held() {
		return
	}
	if g.limits.Rate > 0 && !g.bucket.at.IsZero() {
		g.bucket.fill(g.limits, time.Now())
		if g.bucket.tokens < g.limits.burst() {
			return
		}
	}
	if y.groups[g.name] == g {
		y.quiet(g)
		delete(y.groups, g.name)
	}
}

// forget lets a job wait no more. y.mu is held.
func (y *yard) forget(k *kept) {
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

// remove takes out a job that is canceled, and ends it in the store.
func (y *yard) remove(id string) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	k := y.jobs[id]
	if k == nil {
		return false
	}
	k.group.lanes[k.level].count--
	y.forget(k)
	k.delivery.Ack()
	y.drop(k.group)
	y.fill(k.level)
	return true
}

// keeps is how many jobs of a priority wait here.
func (y *yard) keeps(p Priority) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.waiting[p]
}

// signal wakes the calls of Work.
func (y *yard) signal() {
	y.mu.Lock()
	defer y.mu.Unlock()
	for r := range y.runners {
		r.signal()
	}
}

// pause holds all turns, or lets them go on.
func (y *yard) pause(paused bool) {
	y.mu.Lock()
	y.paused = paused
	y.mu.Unlock()
	y.signal()
}

// limit takes the limits that are set.
func (y *yard) limit(set map[string]GroupLimits) {
	y.mu.Lock()
	y.set, y.looked = set, time.Now()
	for _, g := range y.groups {
		before := g.limits
		if g.limits, g.own = y.limitsOf(g.name); g.limits == before {
			continue
		}
		if g.bucket.tokens = min(g.bucket.tokens, g.limits.burst()); g.limits.Rate == 0 {
			g.bucket = bucket{}
		}
		y.quiet(g)
		y.unblock(g)
	}
	y.mu.Unlock()
	y.signal()
}

// tick sets the timer that gives signs of life. y.mu is held.
func (y *yard) tick() {
	if y.ticking == nil && y.takers[Normal] != nil {
		// Its goroutine ends at once; stop ends it before it begins.
		y.ticking = time.AfterFunc(y.queue.config.Lease/12, y.ticked)
	}
}

// ticked gives signs of life for what is kept, and looks for what is overdue.
func (y *yard) ticked() {
	now := time.Now()
	lease := y.queue.config.Lease
	y.mu.Lock()
	y.ticking = nil
	n := 0
	for ; n < len(y.signs) && now.Sub(y.signs[n].extended) >= lease/4; n++ {
		if k := y.signs[n]; !k.gone {
			k.extended = now
			k.delivery.Extend()
			y.signs = append(y.signs, k)
		}
	}
	clear(y.signs[:n])
	y.signs = y.signs[n:]
	for _, g := range y.groups {
		y.upkeep(g, now)
		y.drop(g)
	}
	if len(y.groups) > 0 {
		y.tick()
	}
	stale := y.shared && now.Sub(y.looked) >= limitsAge
	if stale {
		y.looked = now
	}
	y.mu.Unlock()
	if stale {
		y.queue.spawn(y.look) // ends with its calls, at the latest with live
	}
}

// look reads what other nodes may have changed.
func (y *yard) look() {
	q := y.queue
	if set, err := q.setLimits(q.live, y.name); err == nil {
		y.limit(set)
	}
	plain, err := q.engine.Depth(q.live, engine.Consumer{Queue: y.name, Priority: Normal.String()})
	if err == nil {
		y.pause(plain.Paused)
	} else if !q.hopeless(err) && !errors.Is(err, engine.ErrNotFound) {
		q.journal.emit(Event{Kind: NotKept, Queue: y.name, Text: "the limits of its groups: " + err.Error()})
	}
}
