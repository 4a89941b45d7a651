package memory

import (
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// state is the state of a record.
type state uint8

const (
	kept      state = iota // in a stream other than Jobs
	scheduled              // on "at.<id>"; it appears as another record when due
	waiting                // never handed out
	taken                  // handed out, and within its lease
	delayed                // given back with a delay
	again                  // to be handed out before waiting records
	gone
)

var recordStates = lifecycle.Table[state]{
	Name: "record",
	States: map[state]string{
		kept: "kept", scheduled: "scheduled", waiting: "waiting", taken: "taken",
		delayed: "delayed", again: "again", gone: "gone",
	},
	Moves: map[state][]state{
		kept:      {gone},
		scheduled: {gone},
		waiting:   {taken, gone},
		taken:     {delayed, again, gone},
		delayed:   {again, gone},
		again:     {taken, gone},
		gone:      {},
	},
}

// overhead is added to the size of each record, besides its subject and data.
const overhead = 32

// record is a stored message. Its fields are guarded by the mutex of the store; those of
// the message never change.
type record struct {
	engine.Message

	state      lifecycle.Machine[state]
	consumer   *consumer // of a job; nil for others
	deliveries int
	had        *Engine // the last engine it was handed out to, or began on; compared only

	due   time.Time // when the store next changes it by itself
	index int       // index in agenda, from 1; 0 for none

	older, newer *record // with the same last token
}

func (r *record) size() int64 { return int64(len(r.Subject)+len(r.Data)) + overhead }

// move changes the state, and reports whether that was possible.
func (r *record) move(from, to state) bool { return r.state.Move(from, to) == nil }

// message returns a copy that its receiver may keep and change.
func (r *record) message() engine.Message {
	m := r.Message
	m.Data = slices.Clone(r.Data)
	return m
}

// line is a queue of records, some of which may be gone. Gone records leave its front at
// once and its middle in bulk.
type line struct {
	records []*record
	gone    int // number of gone records
}

func (l *line) live() int { return len(l.records) - l.gone }

func (l *line) push(r *record) { l.records = append(l.records, r) }

// lost counts a record of l as gone.
func (l *line) lost() {
	l.gone++
	l.trim()
	if l.gone > 64 && l.gone > len(l.records)/2 {
		l.records = slices.DeleteFunc(l.records, (*record).isGone)
		l.gone = 0
	}
}

func (r *record) isGone() bool { return r.state.State() == gone }

// trim removes gone records from the front.
func (l *line) trim() {
	for len(l.records) > 0 && l.records[0].isGone() {
		l.shift()
		l.gone--
	}
}

func (l *line) shift() {
	l.records[0] = nil
	l.records = l.records[1:]
}

// first returns the first record, nil for none.
func (l *line) first() *record {
	if len(l.records) == 0 {
		return nil
	}
	return l.records[0]
}

// pop removes and returns the first record.
func (l *line) pop() *record {
	r := l.first()
	if r != nil {
		l.shift()
		l.trim()
	}
	return r
}

// from returns the records from sequence number seq on, if the line is ordered by
// sequence number. Some may be gone.
func (l *line) from(seq uint64) []*record {
	i, _ := slices.BinarySearchFunc(l.records, seq, func(r *record, seq uint64) int {
		switch {
		case r.Seq < seq:
			return -1
		case r.Seq > seq:
			return 1
		}
		return 0
	})
	return l.records[i:]
}

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
