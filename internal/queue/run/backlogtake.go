package run

import (
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// take begins to take from the consumers. y.mu is held.
func (y *backlog) take() error {
	for p := range job.Priority(job.Priorities) {
		if y.takers[p] != nil {
			continue
		}
		t, err := y.queue.Engine.Take(y.consumer(p), func(d engine.Delivery) { y.arrived(p, d) }, func(n int) { y.returned(p, n) })
		if err != nil {
			return err
		}
		y.takers[p] = t
		y.asked[p] = 0
		y.fill(p)
	}
	return nil
}

func (y *backlog) consumer(p job.Priority) engine.Consumer {
	return engine.Consumer{Queue: y.name, Priority: p.String(), Grouped: true}
}

// leave says that r takes no more. On a store that others share the last one
// gives back what is kept.
func (y *backlog) leave(r *runner) {
	y.mu.Lock()
	delete(y.runners, r)
	last := len(y.runners) == 0
	y.mu.Unlock()
	if last && y.shared {
		y.stop(true)
	}
}

// stop ends the taking, and gives back what is kept, where that is of use.
func (y *backlog) stop(giveBack bool) {
	y.mu.Lock()
	y.closed = true
	takers := y.takers
	y.takers = [job.Priorities]engine.Taker{}
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
		g.lanes, g.blocked = [job.Priorities]lane{}, false
		y.giveUp(g)
		y.drop(g)
	}
	y.signs, y.rings = nil, [job.Priorities]ring{}
	y.dues, y.late = nil, [job.Priorities][]*kept{}
	y.runnable.Store(0)
}

// arrived keeps a job that came.
func (y *backlog) arrived(p job.Priority, d engine.Delivery) {
	now := time.Now()
	k := &kept{delivery: d, id: engine.LastToken(d.Subject), level: p, came: now, extended: now}
	s, err := record.DecodeJob(k.id, d.Data)
	name := ""
	if err == nil {
		name = s.Job.Group
		k.stored, k.deadline = s, s.Job.Deadline
	}
	// Whoever cancels it from here on finds it in the backlog, or has been seen here.
	y.mu.Lock()
	y.asked[p]--
	if y.queue.wasTakenBack(k.id) {
		d.Ack()
		y.fill(p)
		y.mu.Unlock()
		return
	}
	if y.takers[p] == nil || y.jobs[k.id] != nil {
		// Nobody works any more, or its lease ended while it was kept here.
		if other := y.jobs[k.id]; other != nil {
			other.delivery = d
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
	if y.cached++; y.cached > MostCached {
		y.cached--
		k.stored, k.delivery.Data = nil, nil
	}
	y.jobs[k.id] = k
	if len(y.signs) > 2*len(y.jobs)+MostCached {
		y.signs = slices.DeleteFunc(y.signs, func(k *kept) bool { return k.gone })
	}
	y.signs = append(y.signs, k)
	y.dueAt(k)
	g.lanes[p].push(k)
	g.waiting++
	y.waiting[p]++
	y.lineFresh(g, p)
	y.tick()
	y.fill(p)
	y.mu.Unlock()
	y.signal()
}

// aside reports whether a job is put aside, and until when: on a store that others
// share, where its group has enough here. y.mu is held.
func (y *backlog) aside(k *kept, now time.Time) (at time.Time, aside bool) {
	if !y.shared || k.stored == nil {
		return time.Time{}, false
	}
	g, kept := k.group, k.group.lanes[k.level].count
	if kept < g.pace.second() && !(g.blocked && len(y.jobs) >= plenty) {
		return time.Time{}, false
	}
	return g.pace.aside(now, k.stored.Again, kept), true
}

// putAside lets a job come again later.
func (q *Node) putAside(s *record.Job, d engine.Delivery, at time.Time) {
	c, _, _ := record.ParseSubject(d.Message)
	s.Job.Queue = c.Queue
	s.Job.Priority, _ = job.ParsePriority(c.Priority) // the consumer's name is one
	s.Again, s.Job.At = true, at
	q.Engine.Put(s.Message(), func(_ uint64, err error) {
		if err != nil {
			d.Nak(soonest)
			return
		}
		d.Ack()
	})
}

// returned counts requests that were not served, and makes new ones.
func (y *backlog) returned(p job.Priority, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.asked[p] -= n
	y.fill(p)
}

// fill requests as many more jobs as may be kept. y.mu is held.
func (y *backlog) fill(p job.Priority) {
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
func (y *backlog) canBegin() (n int) {
	for _, g := range y.groups {
		if !g.blocked {
			n += g.waiting
		}
	}
	return n
}
