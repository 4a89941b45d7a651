package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Engine is an [engine.Engine] on a [Store].
type Engine struct {
	store  *Store
	space  *space
	opened uint64        // the last sequence number of Jobs when the engine was opened
	failed chan struct{} // that of the store
	ended  chan struct{} // closed when Close has ended

	running sync.WaitGroup // takers, listeners and delayed answers

	closed bool                // guarded by store.mu
	takers map[*taker]struct{} // guarded by store.mu
	late   map[*late]struct{}  // guarded by store.mu
}

var _ engine.Engine = (*Engine)(nil)

// usable returns why e cannot be used. Store.mu is held.
func (e *Engine) usable() error {
	if e.closed {
		return engine.ErrClosed
	}
	return e.store.err
}

// begin applies an injected fault, then locks the store. If it returns an error, the
// store is not locked.
func (e *Engine) begin(ctx context.Context, o Operation) error {
	f := e.store.fault(o)
	if f.Delay > 0 {
		ended := make(chan struct{})
		e.later(f.Delay, func() { close(ended) })
		select {
		case <-ended:
		case <-ctx.Done(): // reported below
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", o.Name, o.Subject, context.Cause(ctx))
	}
	e.store.mu.Lock()
	err := e.usable()
	if err == nil {
		err = f.Err
	}
	if err != nil {
		e.store.mu.Unlock()
	}
	return err
}

// Put stores p. It calls done before it returns, unless [Store.Inject] delays the answer.
func (e *Engine) Put(p engine.Put, done func(seq uint64, err error)) {
	f := e.store.fault(Operation{Name: "put", Stream: p.Stream, Subject: p.Subject})
	var seq uint64
	var err error
	if f.Err == nil || f.Stored {
		seq, err = e.put(p)
	}
	if f.Err != nil {
		seq, err = 0, f.Err
	}
	if f.Delay > 0 {
		e.later(f.Delay, func() { done(seq, err) })
		return
	}
	done(seq, err)
}

func (e *Engine) put(p engine.Put) (uint64, error) {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	if err := e.usable(); err != nil {
		return 0, err
	}
	if err := engine.CheckPut(p); err != nil {
		return 0, err
	}
	sp, st := e.space, &e.space.streams[p.Stream]
	m := engine.Message{Subject: p.Subject, Time: time.Now()}
	if !p.At.IsZero() {
		m.Subject, m.Target, m.At = "at."+engine.LastToken(p.Subject), p.Subject, p.At
	}
	before := st.newest(m.Subject)
	switch {
	case p.New && before != nil, p.After > 0 && (before == nil || before.Seq != p.After):
		return 0, fmt.Errorf("put %s: %w", m.Subject, engine.ErrConflict)
	}
	if err := sp.room(st, int64(len(m.Subject)+len(p.Data))+overhead); err != nil {
		return 0, fmt.Errorf("put %s: %w", m.Subject, err)
	}
	m.Data = slices.Clone(p.Data)
	return sp.keep(st, m, before, p.TTL).Seq, nil
}

// keep stores a checked message. before is the record on its subject.
func (sp *space) keep(st *stream, m engine.Message, before *record, ttl time.Duration) *record {
	if st.name == engine.Jobs && m.Target == "" {
		return sp.job(m)
	}
	if before != nil {
		sp.remove(before) // one message per subject
	}
	if st.name == engine.Jobs {
		r := st.add(m, scheduled)
		sp.at(r, m.At)
		return r
	}
	r := st.add(m, kept)
	switch st.name {
	case engine.Outcomes:
		ttl = sp.options.OutcomeAge
	case engine.Dead:
		ttl = sp.options.DeadAge
	case engine.Jobs, engine.State:
	}
	if ttl > 0 {
		sp.at(r, m.Time.Add(ttl))
		if st.name == engine.State {
			r.Expires = r.due
		}
	}
	sp.enforce()
	return r
}

// room returns why a message of a size cannot be stored: Jobs is full, which drops
// nothing, or the message would not fit into an empty stream.
func (sp *space) room(st *stream, size int64) error {
	o := &sp.options
	switch {
	case st.name == engine.Jobs && o.Jobs > 0 && st.bytes+size > o.Jobs:
		return full(st, size, o.Jobs)
	case st.name == engine.Outcomes && o.Outcomes > 0 && size > o.Outcomes:
		return full(st, size, o.Outcomes)
	case st.name == engine.Dead && o.Dead > 0 && size > o.Dead:
		return full(st, size, o.Dead)
	}
	return nil
}
