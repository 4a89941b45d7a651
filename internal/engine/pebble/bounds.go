package pebble

import (
	"github.com/cockroachdb/pebble/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// oldest holds the first messages, read ahead, of a stream that drops its oldest. It
// belongs to the committer. Some of the messages may be gone already.
type oldest struct {
	line []aged
	from uint64 // where to read the next ones
}

// aged is what is needed to drop a message.
type aged struct {
	seq     uint64
	subject string
	size    int64
	time    int64
}

// readAhead is how many messages are read at a time.
const readAhead = 256

// enforce drops the oldest messages of a stream until its bounds hold. It checks ages
// only when something is due.
func (g *group) enforce(s engine.Stream) error {
	o := &g.engine.options
	var most, count int64
	switch s {
	case engine.Outcomes:
		most, count = o.Outcomes, o.OutcomeCount
	case engine.Dead:
		most = o.Dead
	case engine.Jobs, engine.State:
		return nil
	}
	age := g.engine.age(s)
	for t := &g.streams[s]; t.messages > 0; {
		full := most > 0 && t.bytes > most || count > 0 && t.messages > count
		if !full && (age == 0 || !g.turned || len(g.gone) > mostOperations) {
			return nil
		}
		first, ok, err := g.first(s)
		if err != nil || !ok || !full && first.time+age > g.now {
			return err
		}
		if err := g.drop(message{s, first.seq}, first.subject, first.size); err != nil {
			return err
		}
	}
	return nil
}

// first returns the oldest message of a stream.
func (g *group) first(s engine.Stream) (aged, bool, error) {
	o := &g.engine.oldest[s]
	for {
		for ; len(o.line) > 0; o.line = o.line[1:] {
			entries, err := g.entries(s, o.line[0].subject)
			if err != nil {
				return aged{}, false, err
			}
			for _, p := range entries {
				if p.seq == o.line[0].seq {
					return o.line[0], true, nil
				}
			}
		}
		if err := g.readOn(s, o); err != nil {
			return aged{}, false, err
		}
		if len(o.line) == 0 {
			break
		}
	}
	// All stored messages are gone: the oldest one belongs to this group.
	var first aged
	for m, i := range g.items {
		if m.stream == s && (first.seq == 0 || m.seq < first.seq) {
			first = aged{m.seq, i.subject, i.size(), i.time}
		}
	}
	return first, first.seq > 0, nil
}

// readOn reads further messages of a stream ahead.
func (g *group) readOn(s engine.Stream, o *oldest) error {
	n := g.engine.space
	iter, err := g.db.NewIter(&pebble.IterOptions{LowerBound: n.message(s, o.from), UpperBound: n.message(s+1, 0)})
	if err != nil {
		return err
	}
	o.line = o.line[:0]
	for iter.First(); iter.Valid() && len(o.line) < readAhead; iter.Next() {
		i, err := readItem(iter.Value())
		seq, ok := seqOf(iter.Key())
		if err != nil || !ok {
			iter.Close() //nolint:errcheck // the other error is returned
			return errRecord
		}
		o.line = append(o.line, aged{seq, i.subject, i.size(), i.time})
		o.from = seq + 1
	}
	return iter.Close()
}
