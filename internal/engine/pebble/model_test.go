package pebble

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// book is what stands on subjects.
type book map[string]string

// model keeps what was confirmed, and what is under way and so may be stored or
// not.
type model struct {
	mu     sync.Mutex
	sure   book                       // guarded by mu
	maybe  map[string]map[string]bool // what a subject may hold besides; "" is nothing; guarded by mu
	chance *rand.Rand                 // guarded by mu
	writes int                        // guarded by mu
	steps  int                        // so that no job has the id of an earlier one; guarded by mu
	faults []string                   // guarded by mu
}

// free is what a subject may hold that nothing more is known of.
const free = "\x00anything"

// copy gives what must be there: what is sure and not being changed. mu is held.
func (l *model) copy() book {
	b := maps.Clone(l.sure)
	for subject, may := range l.maybe {
		if len(may) > 0 {
			b[subject] = free
		}
	}
	return b
}

// begin notes that a subject may hold something else from now on, and gives what ends
// that.
func (l *model) begin(subject, data string) (end func(bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.maybe[subject] == nil {
		l.maybe[subject] = map[string]bool{}
	}
	key := fmt.Sprint(data, len(l.maybe[subject]), l.chance.Uint64())
	l.maybe[subject][key] = true
	return func(stored bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.maybe[subject], key)
		switch {
		case stored && data == "":
			delete(l.sure, subject)
		case stored:
			l.sure[subject] = data
		}
	}
}

// step does one thing and waits for it, or not.
func (l *model) step(e engine.Engine, r *rand.Rand) {
	put := func(p engine.Put, wait bool) {
		end, done := l.begin(p.Subject, string(p.Data)), make(chan struct{})
		e.Put(p, func(_ uint64, err error) { end(err == nil); close(done) })
		if wait {
			<-done
		}
	}
	l.mu.Lock()
	l.steps++
	id := fmt.Sprintf("%08d-%04d", l.steps, r.IntN(10_000))
	l.mu.Unlock()
	data := fmt.Appendf(nil, "%s %x", id, make([]byte, r.IntN(200)))
	switch r.IntN(6) {
	case 0, 1:
		put(engine.Put{Subject: "job.mail.normal." + id, Data: data, New: true, Durable: r.IntN(2) == 0}, r.IntN(3) == 0)
	case 2:
		put(engine.Put{Stream: engine.Outcomes, Subject: "out." + id, Data: data, Durable: true}, r.IntN(3) == 0)
	case 3: // always waited for, so that what comes last is known
		put(engine.Put{Stream: engine.State, Subject: "set.name." + id[len(id)-1:], Data: data}, true)
	case 4:
		p := engine.Put{Stream: engine.Dead, Subject: "dead.mail." + id, Data: data}
		put(p, true)
		if r.IntN(2) == 0 {
			l.remove(e, engine.Dead, p.Subject)
		}
	default:
		at := time.Now().Add(time.Hour)
		end, done := l.begin("at."+id, string(data)), make(chan struct{})
		e.Put(engine.Put{Subject: "job.mail.normal." + id, Data: data, At: at}, func(_ uint64, err error) { end(err == nil); close(done) })
		if <-done; r.IntN(2) == 0 {
			l.remove(e, engine.Jobs, "at."+id)
		}
	}
}

func (l *model) remove(e engine.Engine, s engine.Stream, subject string) {
	end := l.begin(subject, "")
	m, err := e.Get(context.Background(), s, subject)
	if err == nil {
		err = e.Delete(context.Background(), s, m.Seq)
	}
	end(err == nil)
}

// deliver acknowledges what comes, or ends it with an outcome and a key: from then on
// it may go.
func (l *model) deliver(d engine.Delivery) {
	id := engine.LastToken(d.Subject)
	outcome, key := "end."+id, "key."+id
	l.mu.Lock()
	delete(l.sure, d.Subject)
	l.maybe[d.Subject] = map[string]bool{"acknowledged": true}
	ends := l.chance.IntN(2) == 0
	l.mu.Unlock()
	if !ends {
		d.Ack()
		return
	}
	outcomeEnds, keyEnds := l.begin(outcome, "outcome"), l.begin(key, "key")
	d.End([]engine.Put{
		{Stream: engine.Outcomes, Subject: outcome, Data: []byte("outcome"), Durable: true, New: true},
		{Stream: engine.State, Subject: key, Data: []byte("key"), TTL: time.Hour},
	}, func(err error) {
		outcomeEnds(err == nil)
		keyEnds(err == nil)
	})
}

// whole wants to find of each end all or nothing. mu is held.
func (l *model) whole(c *cut, found book) {
	for subject := range found {
		id := engine.LastToken(subject)
		_, key := found["key."+id]
		_, outcome := found["end."+id]
		_, job := found["job.mail.normal."+id]
		if key != outcome || outcome && job {
			l.fault("after %v a part of an end is there: outcome %v, key %v, job %v", c, outcome, key, job)
		}
	}
}

// compare wants to find what is sure, and nothing that is not.
func (l *model) compare(c *cut, found book) {
	for subject, want := range c.book {
		if got, ok := found[subject]; want != free && got != want {
			l.fault("after %v %s holds %q (%v), want %q, which was confirmed", c, subject, got, ok, want)
		}
	}
	for subject, got := range found {
		if _, ok := c.book[subject]; !ok {
			l.fault("after %v %s holds %q, which was never put, or was removed", c, subject, got)
		}
	}
}

// fault notes what is wrong. mu is held.
func (l *model) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}
