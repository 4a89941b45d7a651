package queue

import (
	"container/heap"
	"context"
	"errors"
	"maps"
	"sync"
	"time"
)

const (
	// mostFiring is how many schedules are dealt with at the same time.
	mostFiring = 512
	// lookAgain is how often the clock is looked at, which people can set.
	lookAgain = time.Second
	// readAgain is how often all schedules are read again where other nodes change
	// them, in case a word of them was lost.
	readAgain = time.Minute
)

// The subjects on which nodes tell each other of schedules: that one was changed,
// that a tick was dealt with, and that a node fires no more.
const (
	tellChanged = "cron.set"
	tellTicked  = "cron.tick"
	tellBye     = "cron.bye"
)

// firer is a call of FireSchedules. All but the inbox belongs to the goroutine of
// that call.
type firer struct {
	queue   *Queue
	leaving context.Context //nolint:containedctx // of the call: its end lets those that fire stop after their tick
	shared  bool
	rules   ruleCache
	entries map[string]*entry // by name
	agenda  agenda
	gone    map[string]bool // nodes that others need not wait for
	reload  []string        // names of schedules to read
	loading map[string]bool // those that are being read, or in reload; true is once more
	touched map[string]bool // those that changed while all are read
	firing  int             // goroutines that deal with a schedule, or read one
	busy    int             // those of them that deal with one
	reading bool            // one reads them all
	readAt  time.Time       // when to read them all
	looked  time.Time       // when the clock was last looked at
	workers sync.WaitGroup

	wake  chan struct{} // capacity 1: something is in the inbox
	mu    sync.Mutex
	inbox []news // guarded by mu
}

// news is what a firer hears. One field is set.
type news struct {
	fired   *entry            // its ticks have been dealt with
	changed string            // the name of a schedule
	loaded  *scannedSchedule  // it was read; without a record and an error it is gone
	all     []scannedSchedule // all were read, begun at the time asked
	asked   time.Time
	failed  error // reading failed
	name    string
	ticked  *tickRecord // of the schedule name, with seq
	seq     uint64
	bye     string // a node
}

// errFiring says that a queue fires its schedules already.
var errFiring = errors.New("queue: FireSchedules runs already on this Queue: one call is enough")

// FireSchedules enqueues the jobs of all schedules at their ticks until ctx ends.
// Any number of nodes may do so: each tick has one job, whichever of them die
// when. The node that had the last tick of a schedule goes first, the others after
// a second.
//
// A node goes by its own clock: one that is ahead fires early by as much, one that
// is behind finds that another was there before. A clock that is put back fires
// nothing twice.
//
// When ctx ends, what is under way is finished, and the error is nil. It is
// ErrClosed after Close, and says why else there will be no more ticks. A store
// that is away for a moment ends nothing. It costs one message and one sync of the
// disk for each tick, which ticks at the same time share, and a small message
// more; and about 1 kB of memory for each schedule.
func (q *Queue) FireSchedules(ctx context.Context) error {
	f := &firer{
		queue: q, leaving: ctx, shared: q.engine.Shared(), wake: make(chan struct{}, 1),
		entries: make(map[string]*entry), gone: make(map[string]bool), loading: make(map[string]bool),
	}
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		return ErrClosed
	case q.firer != nil:
		q.mu.Unlock()
		return errFiring
	}
	q.firer = f
	q.background.Add(1) // Close waits for this call
	q.mu.Unlock()
	defer q.background.Done()
	stop, err := f.listen()
	if err == nil {
		err = f.run(ctx)
	}
	f.workers.Wait()
	q.mu.Lock()
	q.firer = nil
	q.mu.Unlock()
	stop()
	q.count.schedules.known.Store(0)
	if f.shared && q.live.Err() == nil {
		q.engine.Send(tellBye, []byte(q.config.Node)) //nolint:errcheck // then the others wait for their second
	}
	return err
}

// listen hears what other nodes do.
func (f *firer) listen() (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	if !f.shared {
		return stop, nil
	}
	for subject, heard := range map[string]func([]byte){
		tellChanged: func(b []byte) { f.tell(news{changed: string(b)}) },
		tellBye:     func(b []byte) { f.tell(news{bye: string(b)}) },
		tellTicked:  f.heardTick,
	} {
		s, err := f.queue.engine.Listen(subject, func(_ string, b []byte) { heard(b) })
		if err != nil {
			return stop, storeError(err)
		}
		stops = append(stops, s)
	}
	return stop, nil
}

// tell puts something into the inbox.
func (f *firer) tell(n news) {
	f.mu.Lock()
	f.inbox = append(f.inbox, n)
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// local is the call of FireSchedules of this queue, nil when there is none.
func (q *Queue) local() *firer {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.firer
}

// scheduleChanged tells all nodes that a schedule was put or removed.
func (q *Queue) scheduleChanged(name string) {
	if f := q.local(); f != nil {
		f.tell(news{changed: name})
	}
	if q.engine.Shared() {
		q.engine.Send(tellChanged, []byte(name)) //nolint:errcheck // they read all again from time to time
	}
}

// scheduleTicked tells all nodes how far a schedule is.
func (q *Queue) scheduleTicked(name string, seq uint64, record []byte) {
	w := recordWriter{make([]byte, 0, len(record)+len(name)+16)}
	w.text(1, name)
	w.number(2, seq)
	w.bytes(3, record)
	if q.engine.Shared() {
		q.engine.Send(tellTicked, w.b) //nolint:errcheck // who does not hear of it looks
		return
	}
	if f := q.local(); f != nil {
		f.heardTick(w.b)
	}
}

func (f *firer) heardTick(b []byte) {
	var n news
	var record []byte
	err := readFields(b, func(field field) error {
		switch field.tag {
		case 1:
			n.name = string(field.v)
		case 2:
			return field.into(&n.seq)
		case 3:
			record = field.v
		}
		return nil
	})
	if err != nil {
		return
	}
	t, err := decodeTick(n.name, record)
	if err != nil {
		return
	}
	n.ticked = &t
	f.tell(n)
}

// run fires until ctx ends.
func (f *firer) run(ctx context.Context) error {
	q := f.queue
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.live.Done():
			return ErrClosed
		case <-q.engine.Failed():
			return q.Err()
		case <-timer.C:
		case <-f.wake:
		}
		f.mu.Lock()
		inbox := f.inbox
		f.inbox = nil
		f.mu.Unlock()
		for i := range inbox {
			f.takeIn(&inbox[i])
		}
		now := q.now()
		f.lookAtClock(now)
		f.start(now)
		q.count.schedules.known.Store(int64(len(f.agenda) + f.busy))
		timer.Reset(f.idle(now))
	}
}

// lookAtClock has times set anew that were set by a clock which has been put back
// since.
func (f *firer) lookAtClock(now time.Time) {
	if now.Before(f.looked.Add(-lookAgain)) {
		f.readAt = now
		for _, e := range f.entries {
			f.place(e)
		}
	}
	f.looked = now
}

// idle is how long there is nothing to do, as far as is known.
func (f *firer) idle(now time.Time) time.Duration {
	if len(f.agenda) == 0 || f.firing >= mostFiring {
		return lookAgain
	}
	return max(min(f.agenda[0].wake.Sub(now), lookAgain), 0)
}

// start begins what is due, as far as there is room for it. Its goroutines end
// with what they ask the store; FireSchedules waits for them.
func (f *firer) start(now time.Time) {
	if !f.reading && !now.Before(f.readAt) {
		f.reading, f.touched = true, make(map[string]bool)
		f.workers.Go(func() { f.readAll(now) })
	}
	for ; len(f.reload) > 0 && f.firing < mostFiring; f.reload = f.reload[1:] {
		name := f.reload[0]
		f.firing++
		f.workers.Go(func() { f.read(name) })
	}
	for len(f.agenda) > 0 && f.firing < mostFiring && !f.agenda[0].wake.After(now) {
		e, ok := heap.Pop(&f.agenda).(*entry)
		if !ok {
			return // nothing else is there
		}
		e.busy = true
		f.firing++
		f.busy++
		f.workers.Go(func() {
			f.fire(e)
			f.tell(news{fired: e})
		})
	}
}

func (f *firer) readAll(asked time.Time) {
	all, err := f.queue.scanSchedules(f.queue.live)
	f.tell(news{all: all, asked: asked, failed: err})
}

func (f *firer) read(name string) {
	q := f.queue
	s := scannedSchedule{name: name}
	s.record, s.seq, s.err = q.readSchedule(q.live, name)
	switch {
	case errors.Is(s.err, ErrNoSchedule):
		s.err = nil
	case s.err == nil || errors.Is(s.err, ErrDamaged):
		var err error
		if s.tick, s.tickSeq, err = q.readTick(q.live, name); err != nil {
			f.tell(news{name: name, failed: err})
			return
		}
	default:
		f.tell(news{name: name, failed: s.err})
		return
	}
	f.tell(news{loaded: &s})
}

// takeIn takes something out of the inbox.
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

// troubled has the schedules read again soon.
func (f *firer) troubled(err error) {
	f.queue.journal.emit(Event{Kind: ScheduleFailed, Text: "the schedules cannot be read: " + err.Error()})
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
		f.readAt = n.asked.Add(1 << 62) // nobody else changes them
	}
	there := make(map[string]bool, len(n.all))
	for i := range n.all {
		there[n.all[i].name] = true
		f.load(&n.all[i])
	}
	for name, e := range f.entries {
		if !there[name] && e.known.Before(n.asked) {
			f.changed(name) // it may be a new one: look
		}
	}
	for name := range f.touched {
		f.changed(name) // what was read of it may be older than its change
	}
	f.touched = nil
}

// changed has a schedule read again. What is read while it changes is read once
// more, so that the last reading is of what is there now.
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

// loadedOne goes on when one schedule was read.
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

// load takes over a schedule as it was read.
func (f *firer) load(s *scannedSchedule) {
	e := f.entries[s.name]
	switch {
	case s.record == nil && s.err == nil:
		f.forget(e)
		return
	case e == nil:
		e = &entry{name: s.name, place: -1}
		f.entries[s.name] = e
	case e.busy:
		e.dirty = true
		return
	case s.seq < e.seq:
		return // what is known is newer than what was read
	}
	if s.seq != e.seq {
		e.is(s, &f.rules, f.queue.now())
		if e.fault != "" {
			if s.err != nil {
				f.queue.count.damaged.Add(1)
			}
			f.queue.journal.emit(Event{Kind: ScheduleFailed, Schedule: s.name, Text: e.fault})
		}
	}
	e.hears(s.tick, s.tickSeq)
	f.place(e)
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

// fired goes on with a schedule whose ticks were dealt with.
func (f *firer) fired(e *entry) {
	e.busy = false
	if e.heard != nil {
		e.hears(*e.heard, e.seqOf)
		e.heard = nil
	}
	if e.dirty {
		e.dirty = false
		f.changed(e.name)
	}
	f.place(e)
}

// ticked takes over how far a schedule is, as a node has told.
func (f *firer) ticked(n *news) {
	if node := n.ticked.node; f.gone[node] && node != f.queue.config.Node {
		delete(f.gone, node)
		f.placeAll(node)
	}
	e := f.entries[n.name]
	switch {
	case e == nil:
		f.changed(n.name)
	case e.busy:
		e.heard, e.seqOf = n.ticked, n.seq
	default:
		e.hears(*n.ticked, n.seq)
		f.place(e)
	}
}

// leaves notes that a node fires no more.
func (f *firer) leaves(node string) {
	if node == f.queue.config.Node || f.gone[node] {
		return
	}
	f.gone[node] = true
	f.placeAll(node)
}

// placeAll places those of which a node had the last tick.
func (f *firer) placeAll(node string) {
	for e := range maps.Values(f.entries) {
		if !e.busy && e.tick.node == node {
			f.place(e)
		}
	}
}

// place sets when a schedule is looked at next.
func (f *firer) place(e *entry) {
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
		e.wake = e.wake.Add(holdBack + stagger(f.queue.config.Node, e.name))
	}
	if e.pause > 0 && e.next.Equal(e.trying) {
		e.wake = f.queue.now().Add(e.pause)
	}
	f.agenda.set(e)
}

// first tells whether this node need not wait for another one to fire e.
func (f *firer) first(e *entry) bool {
	node := e.tick.node
	return !f.shared || node == "" || node == f.queue.config.Node || f.gone[node]
}
