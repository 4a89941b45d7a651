package cron

import (
	"container/heap"
	"hash/fnv"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/internal/schedule"
	"github.com/bullpen-run/bullpen/job"
)

// The bounds for handling ticks.
const (
	// missedAfter is how late a tick must be to count as missed.
	missedAfter = 10 * time.Second
	// mostMissed is how many missed ticks MissedAll fires. MostCounted is how many ticks
	// of one gap are counted.
	mostMissed  = 1000
	MostCounted = 10_000
	// HoldBack is how long a node leaves a tick to the node that had the previous one.
	// HoldMore is the largest extra time, which differs between nodes so that not all
	// wake at once.
	HoldBack = time.Second
	HoldMore = 500 * time.Millisecond
	// smallJob is the largest job record that is kept in memory; larger ones are read
	// when they are due.
	smallJob = 4 << 10
)

// entry is a schedule as FireSchedules knows it. It belongs to the goroutine of
// FireSchedules, and while it is busy to the goroutine that handles its ticks.
type entry struct {
	name     string
	seq      uint64 // of the schedule's record
	rule     *schedule.Rule
	fault    string // why rule is nil
	paused   bool
	since    time.Time
	missed   job.Missed
	overlap  job.Overlap
	queue    string
	priority job.Priority
	job      []byte // the job's record; nil if it is large

	tick    record.Tick
	tickSeq uint64
	// known is when this program read the current record. Another node may have handled
	// ticks before that without recording it.
	known time.Time
	// trying is the tick whose job could not be enqueued, and pause the delay before the
	// next attempt.
	trying time.Time
	pause  time.Duration
	// stale means that tick may differ from what is stored.
	stale bool

	next  time.Time // the next tick, or the first that is due; zero for none
	wake  time.Time // when to handle it
	index int       // index in the agenda; -1 if not in it
	held  bool      // another node has the first claim

	// The following fields always belong to the goroutine of FireSchedules.
	busy     bool
	dirty    bool         // it was changed while it was busy
	received *record.Tick // the progress received while it was busy
	seqOf    uint64       // the sequence number of received
}

// after returns the moment after which its ticks are still to be handled.
func (e *entry) after() time.Time { return e.tick.After(e.since) }

// is applies what was read from the store at the time now.
func (e *entry) is(s *scannedSchedule, rules *ruleCache, now time.Time) {
	e.seq, e.known, e.pause, e.trying = s.seq, now, 0, time.Time{}
	e.rule, e.fault = nil, ""
	if s.err != nil {
		e.fault = s.err.Error()
		return
	}
	r := s.record
	e.paused, e.since, e.missed, e.overlap = r.Paused, r.Since, r.Missed, r.Overlap
	e.queue, e.priority = r.Job.Queue, r.Job.Priority
	if e.job = r.JobRecord; len(e.job) > smallJob {
		e.job = nil
	}
	rule, err := rules.of(r)
	if err != nil {
		e.fault = err.Error()
		return
	}
	e.rule = rule
}

// apply applies reported progress, if it is newer.
func (e *entry) apply(t record.Tick, seq uint64) {
	if seq > e.tickSeq {
		e.tick, e.tickSeq = t, seq
	}
}

// due describes the ticks that are due at one time.
type due struct {
	// first is the earliest of them; maybeDone means that it may already be handled.
	first     time.Time
	maybeDone bool
	// fire are the ticks to fire; late means that they were missed.
	fire []time.Time
	late bool
	// missed counts the ticks that do not fire, and last is the last of these; they
	// precede those that fire.
	missed int
	last   time.Time
}

// dueAt returns what is due at a time, nil for nothing.
func (e *entry) dueAt(now time.Time) *due {
	if e.rule == nil || e.paused {
		return nil
	}
	after := e.after()
	first := e.rule.Next(after)
	if first.IsZero() || first.After(now) {
		return nil
	}
	d := &due{first: first, maybeDone: !first.After(e.known), fire: []time.Time{first}}
	trying := first.Equal(e.trying)
	if !trying && now.Sub(first) <= missedAfter {
		return d
	}
	all := e.rule.Between(after, now, MostCounted)
	if trying && len(all) == 1 || len(all) == 0 {
		return d
	}
	d.late, d.maybeDone = true, true
	latest := all[len(all)-1]
	switch {
	case e.missed == job.MissedAll:
		d.fire = all[max(len(all)-mostMissed, 0):]
	case e.missed == job.MissedOnce, now.Sub(latest) <= missedAfter:
		d.fire = all[len(all)-1:]
		d.late = now.Sub(latest) > missedAfter
	default:
		d.fire = nil
	}
	if d.missed = len(all) - len(d.fire); d.missed > 0 {
		d.last = all[d.missed-1]
	}
	return d
}

// ruleCache creates each zone, and each rule of a zone, once: most schedules share them.
type ruleCache struct {
	mu    sync.Mutex
	zones map[string]*time.Location    // guarded by mu
	rules map[[2]string]*schedule.Rule // by text and zone; guarded by mu
}

// mostRules bounds the cache, which callers that keep changing schedules would fill.
const mostRules = 10_000

func (c *ruleCache) of(r *record.Schedule) (*schedule.Rule, error) {
	if r.Every != 0 {
		return schedule.New(r.Cron, r.Every, r.Zone, r.Anchor, c.zone)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{r.Cron, r.Zone}
	if rule := c.rules[key]; rule != nil {
		return rule, nil
	}
	rule, err := schedule.New(r.Cron, r.Every, r.Zone, r.Anchor, c.zone)
	if err != nil {
		return nil, err
	}
	if c.rules == nil || len(c.rules) >= mostRules {
		c.rules = make(map[[2]string]*schedule.Rule)
	}
	c.rules[key] = rule
	return rule, nil
}

// zone returns a time zone. mu is held, unless no other goroutine uses the cache.
func (c *ruleCache) zone(name string) (*time.Location, error) {
	if z := c.zones[name]; z != nil {
		return z, nil
	}
	z, err := schedule.Zone(name)
	if err != nil {
		return nil, err
	}
	if c.zones == nil {
		c.zones = make(map[string]*time.Location)
	}
	c.zones[name] = z
	return z, nil
}

// stagger returns a node's part of HoldMore for a schedule.
func stagger(node, name string) time.Duration {
	h := fnv.New32a()
	h.Write([]byte(node))
	h.Write([]byte{0})
	h.Write([]byte(name))
	return time.Duration(h.Sum32()%1024) * HoldMore / 1024
}

// agenda is a heap of the waiting entries, the earliest first.
type agenda []*entry

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].wake.Before(a[j].wake) }

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

// Push implements heap.Interface.
func (a *agenda) Push(x any) {
	e, ok := x.(*entry)
	if !ok {
		return // nothing else is pushed
	}
	e.index = len(*a)
	*a = append(*a, e)
}

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	old := *a
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	e.index = -1
	return e
}

// set moves e to the index for its time.
func (a *agenda) set(e *entry) {
	if e.index >= 0 {
		heap.Fix(a, e.index)
		return
	}
	heap.Push(a, e)
}

func (a *agenda) drop(e *entry) {
	if e.index >= 0 {
		heap.Remove(a, e.index)
	}
}
