package pebble

import (
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// state is the state of a job in memory.
type state uint8

const (
	waiting state = iota // in the window of its consumer
	taken                // handed out, and within its lease
	delayed              // given back with a delay
	again                // to be handed out before waiting jobs
	gone                 // removed, or being removed
)

var recordStates = lifecycle.Table[state]{
	Name:   "record",
	States: map[state]string{waiting: "waiting", taken: "taken", delayed: "delayed", again: "again", gone: "gone"},
	Moves: map[state][]state{
		waiting: {taken, gone},
		taken:   {delayed, again, gone},
		delayed: {again, gone},
		again:   {taken, gone},
		gone:    {},
	},
}

// record is a job in memory. Its fields are guarded by the mutex of the engine.
type record struct {
	consumer   *consumer
	seq        uint64
	state      lifecycle.Machine[state]
	deliveries int
	held       bool  // its consumer counts it as held
	had        bool  // it was handed out before this engine was opened
	stored     *item // what is handed out next; nil if it must be read
	subject    string
	size       int64

	due   time.Time // when its lease or delay ends
	index int       // index in agenda, from 1; 0 for none
}

// move changes the state, and reports whether that was possible.
func (r *record) move(from, to state) bool { return r.state.Move(from, to) == nil }

func (r *record) isGone() bool { return r.state.State() == gone }

// agenda is a heap of records, the earliest due first.
type agenda []*record

func (a *agenda) set(r *record, due time.Time) {
	r.due = due
	if r.index == 0 {
		*a = append(*a, r)
		r.index = len(*a)
	}
	a.fix(r)
}

func (a *agenda) drop(r *record) {
	if r.index == 0 {
		return
	}
	i, end := r.index-1, len(*a)-1
	last := (*a)[end]
	(*a)[end] = nil
	*a = (*a)[:end]
	r.index = 0
	if last != r {
		(*a)[i], last.index = last, i+1
		a.fix(last)
	}
}

func (a *agenda) first() *record {
	if len(*a) == 0 {
		return nil
	}
	return (*a)[0]
}

func (a agenda) swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i+1, j+1
}

// fix moves r up or down to its place.
func (a agenda) fix(r *record) {
	i := r.index - 1
	for i > 0 && a[i].due.Before(a[(i-1)/2].due) {
		a.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		least := 2*i + 1
		if least >= len(a) {
			return
		}
		if least+1 < len(a) && a[least+1].due.Before(a[least].due) {
			least++
		}
		if !a[least].due.Before(a[i].due) {
			return
		}
		a.swap(i, least)
		i = least
	}
}

const (
	// handoutsLag is how long a note in the file hands may stay unsynced.
	handoutsLag = 100 * time.Millisecond
	// longestSleep bounds the delay that a changed clock can cause.
	longestSleep = 30 * time.Second
)

// sooner records that the store has something to do at a time.
func (e *Engine) sooner(at int64) {
	at = max(at, 1)
	for {
		next := e.next.Load()
		if next != 0 && next <= at {
			return
		}
		if e.next.CompareAndSwap(next, at) {
			e.nudge()
			return
		}
	}
}

// nudge wakes the clock to read what is due first.
func (e *Engine) nudge() {
	select {
	case e.wakeClock <- struct{}{}:
	default: // a wake-up is pending
	}
}

// at sets when the lease or delay of r ends. Engine.mu is held.
func (e *Engine) at(r *record, due time.Time) {
	e.agenda.set(r, due)
	if e.agenda.first() == r {
		e.nudge()
	}
}

// clock handles what is due until the engine is closed.
func (e *Engine) clock() {
	defer e.running.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	flushed := time.Now()
	for {
		select {
		case <-e.stop:
			return
		case <-e.wakeClock:
		case <-timer.C:
		}
		now := time.Now()
		wait := longestSleep
		if next := e.next.Load(); next != 0 {
			if next <= now.UnixNano() {
				if e.next.CompareAndSwap(next, 0) {
					e.queue.give(operation{kind: turning})
				}
			} else {
				wait = min(wait, time.Duration(next-now.UnixNano()))
			}
		}
		if first := e.lapse(now); !first.IsZero() {
			wait = min(wait, time.Until(first))
		}
		if e.handouts.changed() {
			if left := handoutsLag - now.Sub(flushed); left > 0 {
				wait = min(wait, left)
			} else {
				flushed = now
				if err := e.handouts.sync(); err != nil {
					e.fail(err)
				}
			}
		}
		timer.Reset(max(wait, 0))
	}
}

// lapse ends leases and delays, and returns when the next one ends.
func (e *Engine) lapse(now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	for r := e.agenda.first(); r != nil; r = e.agenda.first() {
		if r.due.After(now) {
			return r.due
		}
		switch s := r.state.State(); s {
		case taken, delayed:
			r.consumer.giveBack(r, s)
		case waiting, again, gone: // nothing is due for these
			e.agenda.drop(r)
		}
	}
	return time.Time{}
}

// consumerOf returns the consumer of a job's subject, which was checked.
func consumerOf(subject string) engine.Consumer {
	c, _, _ := engine.ParseJob(subject)
	return c
}
