package cron

import (
	"errors"
	"maps"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

func (f *firer) readAll(asked time.Time) {
	all, err := f.queue.scanSchedules(f.queue.Live)
	f.post(news{all: all, asked: asked, failed: err})
}

func (f *firer) read(name string) {
	q := f.queue
	s := scannedSchedule{name: name}
	s.record, s.seq, s.err = q.readSchedule(q.Live, name)
	switch {
	case errors.Is(s.err, job.ErrNoSchedule):
		s.err = nil
	case s.err == nil || errors.Is(s.err, job.ErrDamaged):
		var err error
		if s.tick, s.tickSeq, err = q.readTick(q.Live, name); err != nil {
			f.post(news{name: name, failed: err})
			return
		}
	default:
		f.post(news{name: name, failed: s.err})
		return
	}
	f.post(news{loaded: &s})
}

// takeIn handles an event from the inbox.
func (f *firer) takeIn(n *news) {
	switch {
	case n.fired != nil:
		f.firing--
		f.busy--
		f.fired(n.fired)
	case n.changed != "":
		f.changed(n.changed)
	case n.ticked != nil:
		f.ticked(n)
	case n.bye != "":
		f.leaves(n.bye)
	case n.name != "": // one could not be read
		f.loadedOne(n.name, nil)
		f.troubled(n.failed)
	case n.loaded != nil:
		f.loadedOne(n.loaded.name, n.loaded)
	default:
		f.loadAll(n)
	}
}

// troubled makes all schedules be read again soon.
func (f *firer) troubled(err error) {
	f.queue.Journal.Emit(job.Event{Kind: job.ScheduleFailed, Text: "cannot read the schedules: " + err.Error()})
	f.readAt = f.queue.now().Add(lookAgain)
}

func (f *firer) loadAll(n *news) {
	f.reading = false
	if n.failed != nil {
		f.troubled(n.failed)
		return
	}
	f.readAt = n.asked.Add(readAgain)
	if !f.shared {
		f.readAt = n.asked.Add(1 << 62) // no other node changes them
	}
	there := make(map[string]bool, len(n.all))
	for i := range n.all {
		there[n.all[i].name] = true
		f.load(&n.all[i])
	}
	for name, e := range f.entries {
		if !there[name] && e.known.Before(n.asked) {
			f.changed(name) // it may be a new schedule: read it
		}
	}
	for name := range f.touched {
		f.changed(name) // what was read of it may be older than its change
	}
	f.touched = nil
}

// changed reads a schedule again. One that changes while it is read is read once more, so
// that the last read sees the current record.
func (f *firer) changed(name string) {
	if f.reading {
		f.touched[name] = true
	}
	if _, already := f.loading[name]; already {
		f.loading[name] = true
		return
	}
	if e := f.entries[name]; e != nil && e.busy {
		e.dirty = true
		return
	}
	f.loading[name] = false
	f.reload = append(f.reload, name)
}

// loadedOne continues when one schedule was read.
func (f *firer) loadedOne(name string, s *scannedSchedule) {
	f.firing--
	again := f.loading[name]
	delete(f.loading, name)
	if s != nil {
		f.load(s)
	}
	if again {
		f.changed(name)
	}
}

// load applies a schedule that was read.
func (f *firer) load(s *scannedSchedule) {
	e := f.entries[s.name]
	switch {
	case s.record == nil && s.err == nil:
		f.forget(e)
		return
	case e == nil:
		e = &entry{name: s.name, index: -1}
		f.entries[s.name] = e
	case e.busy:
		e.dirty = true
		return
	case s.seq < e.seq:
		return // what is known is newer
	}
	if s.seq != e.seq {
		e.is(s, &f.rules, f.queue.now())
		if e.fault != "" {
			kind := job.ScheduleFailed
			if s.err != nil {
				kind = job.Damaged
				f.queue.Damages.Add(1)
			}
			f.queue.Journal.Emit(job.Event{Kind: kind, Schedule: s.name, Text: e.fault})
		}
	}
	e.apply(s.tick, s.tickSeq)
	f.reschedule(e)
}

func (f *firer) forget(e *entry) {
	if e == nil {
		return
	}
	if e.busy {
		e.dirty = true
		return
	}
	f.agenda.drop(e)
	delete(f.entries, e.name)
}

// fired continues with a schedule whose ticks were handled.
func (f *firer) fired(e *entry) {
	e.busy = false
	if e.received != nil {
		e.apply(*e.received, e.seqOf)
		e.received = nil
	}
	if e.dirty {
		e.dirty = false
		f.changed(e.name)
	}
	f.reschedule(e)
}

// ticked applies progress that another node reported.
func (f *firer) ticked(n *news) {
	if node := n.ticked.Node; f.gone[node] && node != f.queue.Config.Node {
		delete(f.gone, node)
		f.rescheduleAll(node)
	}
	e := f.entries[n.name]
	switch {
	case e == nil:
		f.changed(n.name)
	case e.busy:
		e.received, e.seqOf = n.ticked, n.seq
	default:
		e.apply(*n.ticked, n.seq)
		f.reschedule(e)
	}
}

// leaves records that a node stopped firing.
func (f *firer) leaves(node string) {
	if node == f.queue.Config.Node || f.gone[node] {
		return
	}
	f.gone[node] = true
	f.rescheduleAll(node)
}

// rescheduleAll reschedules the entries whose last tick a node had.
func (f *firer) rescheduleAll(node string) {
	for e := range maps.Values(f.entries) {
		if !e.busy && e.tick.Node == node {
			f.reschedule(e)
		}
	}
}

// reschedule sets when a schedule is handled next.
func (f *firer) reschedule(e *entry) {
	if e.busy {
		return
	}
	e.next = time.Time{}
	if e.rule != nil && !e.paused {
		e.next = e.rule.Next(e.after())
	}
	if e.next.IsZero() {
		f.agenda.drop(e)
		return
	}
	e.wake = e.next
	if e.held = !f.first(e); e.held {
		e.wake = e.wake.Add(HoldBack + stagger(f.queue.Config.Node, e.name))
	}
	if e.pause > 0 && e.next.Equal(e.trying) {
		e.wake = f.queue.now().Add(e.pause)
	}
	f.agenda.set(e)
}

// first reports whether this node may fire e without waiting for another one.
func (f *firer) first(e *entry) bool {
	node := e.tick.Node
	return !f.shared || node == "" || node == f.queue.Config.Node || f.gone[node]
}
