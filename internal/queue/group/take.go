package group

import (
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// take starts to take from the consumers. b.mu is held.
func (b *Backlog) take() error {
	for p := range job.Priority(job.Priorities) {
		if b.takers[p] != nil {
			continue
		}
		t, err := b.owner.Engine.Take(b.consumer(p), func(d engine.Delivery) { b.arrived(p, d) }, func(n int) { b.returned(p, n) })
		if err != nil {
			return err
		}
		b.takers[p] = t
		b.asked[p] = 0
		b.fill(p)
	}
	return nil
}

func (b *Backlog) consumer(p job.Priority) engine.Consumer {
	return engine.Consumer{Queue: b.name, Priority: p.String(), Grouped: true}
}

// Leave reports that c takes no more jobs. On a shared store the last one to leave gives
// back the kept jobs.
func (b *Backlog) Leave(c Call) {
	b.mu.Lock()
	delete(b.calls, c)
	last := len(b.calls) == 0
	b.mu.Unlock()
	if last && b.shared {
		b.stop(true)
	}
}

// stop stops taking jobs. With giveBack it gives back the kept jobs, if that is useful.
func (b *Backlog) stop(giveBack bool) {
	b.mu.Lock()
	b.closed = true
	takers := b.takers
	b.takers = [job.Priorities]engine.Taker{}
	if b.ticking != nil {
		b.ticking.Stop()
		b.ticking = nil
	}
	b.mu.Unlock()
	for _, t := range takers {
		if t != nil {
			t.Stop()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range b.jobs {
		if b.forget(k); giveBack {
			k.Delivery.Nak(0)
		}
	}
	for _, g := range b.groups {
		b.quiet(g)
		g.lanes, g.blocked = [job.Priorities]lane{}, false
		b.giveUp(g)
		b.drop(g)
	}
	b.renewals, b.rings = nil, [job.Priorities]ring{}
	b.dues, b.late = nil, [job.Priorities][]*Job{}
	b.runnable.Store(0)
}

// arrived keeps a job that was delivered.
func (b *Backlog) arrived(p job.Priority, d engine.Delivery) {
	now := time.Now()
	k := &Job{Delivery: d, ID: engine.LastToken(d.Subject), level: p, Came: now, Renewed: now}
	s, err := record.DecodeJob(k.ID, d.Data)
	name := ""
	if err == nil {
		name = s.Job.Group
		k.Stored, k.deadline = s, s.Job.Deadline
	}
	// A Cancel from here on finds the job in the backlog; an earlier one is seen below.
	b.mu.Lock()
	b.asked[p]--
	if b.owner.Canceled(k.ID) {
		d.Ack()
		b.fill(p)
		b.mu.Unlock()
		return
	}
	if b.takers[p] == nil || b.jobs[k.ID] != nil {
		// No call of Work is left, or the job's lease ended while it was kept here.
		if other := b.jobs[k.ID]; other != nil {
			other.Delivery = d
		} else {
			d.Nak(0)
		}
		b.fill(p)
		b.mu.Unlock()
		return
	}
	g := b.group(name)
	k.group = g
	if at, aside := b.aside(k, now); aside {
		b.fill(p)
		b.mu.Unlock()
		b.owner.putAside(s, d, at)
		return
	}
	if b.cached++; b.cached > MostCached {
		b.cached--
		k.Stored, k.Delivery.Data = nil, nil
	}
	b.jobs[k.ID] = k
	if len(b.renewals) > 2*len(b.jobs)+MostCached {
		b.renewals = slices.DeleteFunc(b.renewals, func(k *Job) bool { return k.gone })
	}
	b.renewals = append(b.renewals, k)
	b.dueAt(k)
	g.lanes[p].push(k)
	g.waiting++
	b.waiting[p]++
	b.lineFresh(g, p)
	b.tick()
	b.fill(p)
	b.mu.Unlock()
	b.signal()
}

// aside reports whether a job is put aside, and until when. That happens on a shared
// store if the job's group has enough jobs here. b.mu is held.
func (b *Backlog) aside(k *Job, now time.Time) (at time.Time, aside bool) {
	if !b.shared || k.Stored == nil {
		return time.Time{}, false
	}
	g, kept := k.group, k.group.lanes[k.level].count
	if kept < g.pace.second() && !(g.blocked && len(b.jobs) >= plenty) {
		return time.Time{}, false
	}
	return g.pace.aside(now, k.Stored.Again, kept), true
}

// putAside puts a job back into the store, to come again at the time at.
func (q *Groups) putAside(s *record.Job, d engine.Delivery, at time.Time) {
	c, _, _ := record.ParseSubject(d.Message)
	s.Job.Queue = c.Queue
	s.Job.Priority, _ = job.ParsePriority(c.Priority) // the consumer's name is a valid priority
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
func (b *Backlog) returned(p job.Priority, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked[p] -= n
	b.fill(p)
}

// fill requests as many further jobs as the backlog may keep. b.mu is held.
func (b *Backlog) fill(p job.Priority) {
	if b.takers[p] == nil {
		return
	}
	ahead, room := keptAhead, mostKept-b.waiting[p]
	if b.shared {
		ahead = b.pace.second()
		room = max(2*ahead-b.canBegin(), 0)
	}
	if n := min(ahead, room) - b.asked[p]; n > ahead/2 {
		b.asked[p] += n
		b.takers[p].Request(n, true)
	}
}

// canBegin returns how many jobs wait only for a place. b.mu is held.
func (b *Backlog) canBegin() (n int) {
	for _, g := range b.groups {
		if !g.blocked {
			n += g.waiting
		}
	}
	return n
}
