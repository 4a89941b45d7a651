package memory

import (
	"fmt"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// stream is one of the four streams of a namespace.
type stream struct {
	name    engine.Stream
	records line               // ordered by sequence number
	tokens  map[string]*record // the newest record by its last token
	bytes   int64
	last    uint64
}

// space is the content of one namespace. All its fields are guarded by the mutex of the
// store.
type space struct {
	store     *Store
	options   engine.Options
	engines   int // number of open engines
	streams   [4]stream
	consumers map[engine.Consumer]*consumer
	listeners map[*listener]struct{}

	agenda agenda
	timer  *time.Timer
	armed  time.Time // when timer fires; zero if it is not set
}

func newSpace(s *Store) *space {
	sp := &space{
		store: s, consumers: map[engine.Consumer]*consumer{}, listeners: map[*listener]struct{}{},
	}
	for i := range sp.streams {
		sp.streams[i] = stream{name: engine.Stream(i), tokens: map[string]*record{}}
	}
	return sp
}

// newest returns the newest record whose subject matches, nil for none.
func (st *stream) newest(pattern string) *record {
	token := engine.LastToken(pattern)
	if token != "*" && token != ">" {
		for r := st.tokens[token]; r != nil; r = r.older {
			if engine.Matches(pattern, r.Subject) {
				return r
			}
		}
		return nil
	}
	for _, r := range slices.Backward(st.records.records) {
		if !r.isGone() && engine.Matches(pattern, r.Subject) {
			return r
		}
	}
	return nil
}

// find returns the record with a sequence number, nil for none.
func (st *stream) find(seq uint64) *record {
	if rs := st.records.from(seq); len(rs) > 0 && rs[0].Seq == seq && !rs[0].isGone() {
		return rs[0]
	}
	return nil
}

// add stores a new record in state first.
func (st *stream) add(m engine.Message, first state) *record {
	st.last++
	m.Stream, m.Seq = st.name, st.last
	r := &record{Message: m}
	r.state.Init(&recordStates, first)
	st.records.push(r)
	st.bytes += r.size()
	token := engine.LastToken(m.Subject)
	if r.older = st.tokens[token]; r.older != nil {
		r.older.newer = r
	}
	st.tokens[token] = r
	return r
}

// unlink removes r, which is already gone, from the lists.
func (st *stream) unlink(r *record) {
	st.bytes -= r.size()
	switch {
	case r.newer != nil:
		r.newer.older = r.older
	case r.older != nil:
		st.tokens[engine.LastToken(r.Subject)] = r.older
	default:
		delete(st.tokens, engine.LastToken(r.Subject))
	}
	if r.older != nil {
		r.older.newer = r.newer
	}
	r.older, r.newer, r.Data = nil, nil, nil
	st.records.lost()
}

// remove removes r. It does nothing if r is gone.
func (sp *space) remove(r *record) {
	was, err := r.state.MoveAny(gone)
	if err != nil {
		return // already gone
	}
	sp.agenda.drop(r)
	switch was {
	case waiting:
		r.consumer.fresh.lost()
	case again:
		r.consumer.again.lost()
	case taken, delayed:
		r.consumer.held--
	case kept, scheduled, gone:
	}
	sp.streams[r.Stream].unlink(r)
}

// enforce drops the oldest messages of bounded streams until the bounds hold.
func (sp *space) enforce() {
	o := &sp.options
	for _, b := range []struct {
		name         engine.Stream
		bytes, count int64
	}{{engine.Outcomes, o.Outcomes, o.OutcomeCount}, {engine.Dead, o.Dead, 0}} {
		st := &sp.streams[b.name]
		for r := st.records.first(); r != nil; r = st.records.first() {
			if (b.bytes == 0 || st.bytes <= b.bytes) && (b.count == 0 || int64(st.records.live()) <= b.count) {
				break
			}
			sp.remove(r)
		}
	}
}

// job makes a record of Jobs ready to be handed out.
func (sp *space) job(m engine.Message) *record {
	r := sp.streams[engine.Jobs].add(m, waiting)
	r.consumer = sp.consumer(consumerOf(m.Subject))
	r.consumer.fresh.push(r)
	r.consumer.wake()
	return r
}

// consumerOf returns the consumer of a job's subject, which was checked.
func consumerOf(subject string) engine.Consumer {
	c, _, _ := engine.ParseJob(subject)
	return c
}

func (sp *space) consumer(name engine.Consumer) *consumer {
	c := sp.consumers[name]
	if c == nil {
		c = &consumer{space: sp}
		sp.consumers[name] = c
	}
	return c
}

// at sets when r is due.
func (sp *space) at(r *record, due time.Time) {
	sp.agenda.set(r, due)
	if sp.agenda.first() == r {
		sp.arm()
	}
}

// arm sets the timer for what is due first, unless it fires earlier.
func (sp *space) arm() {
	r := sp.agenda.first()
	if r == nil || sp.engines == 0 || !sp.armed.IsZero() && !r.due.Before(sp.armed) {
		return
	}
	sp.armed = r.due
	if d := time.Until(r.due); sp.timer == nil {
		// Its goroutine ends when it has handled what is due. No goroutine waits for it:
		// it makes no callbacks, and does nothing if no engine is open.
		sp.timer = time.AfterFunc(d, sp.tick)
	} else {
		sp.timer.Reset(d)
	}
}

// disarm stops the timer when the last engine is closed.
func (sp *space) disarm() {
	if sp.timer != nil {
		sp.timer.Stop()
	}
	sp.timer, sp.armed = nil, time.Time{}
}

func (sp *space) tick() {
	sp.store.mu.Lock()
	defer sp.store.mu.Unlock()
	if sp.engines == 0 {
		return
	}
	sp.armed = time.Time{}
	now := time.Now()
	for r := sp.agenda.first(); r != nil && !r.due.After(now); r = sp.agenda.first() {
		sp.agenda.drop(r)
		sp.lapse(r, now)
	}
	sp.arm()
}

// lapse handles a record that is due.
func (sp *space) lapse(r *record, now time.Time) {
	switch r.state.State() {
	case taken:
		r.consumer.giveBack(r, taken)
	case delayed:
		r.consumer.giveBack(r, delayed)
	case scheduled:
		m := engine.Message{Subject: r.Target, Data: r.Data, Time: now}
		sp.remove(r)
		sp.job(m)
	case kept:
		sp.remove(r) // by age or TTL
	case waiting, again, gone: // nothing is due for these
	}
}

// usage returns how much st holds.
func (st *stream) usage() engine.Usage {
	u := engine.Usage{Messages: int64(st.records.live()), Bytes: st.bytes, First: st.last + 1, Last: st.last}
	if r := st.records.first(); r != nil {
		u.First = r.Seq
	}
	return u
}

// full returns the error for a stream without room for a message.
func full(st *stream, size, bound int64) error {
	return fmt.Errorf("%w: %d bytes of %v are in a store limited to %d, and %d more do not fit: wait for jobs to end, or raise the limit", engine.ErrFull, st.bytes, st.name, bound, size)
}
