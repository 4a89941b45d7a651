package pebble

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// message identifies one message of a stream.
type message struct {
	stream engine.Stream
	seq    uint64
}

// group is a batch under construction. Its later operations see what its earlier ones
// have changed. It belongs to the committer.
type group struct {
	engine  *Engine
	db      *pebble.DB
	batch   *pebble.Batch
	now     int64
	streams totals             // the totals after the batch
	index   map[string][]entry // changed entries, by key
	items   map[message]item   // added items
	gone    map[message]bool   // removed messages
	numbers map[numbered]int64 // changes of the counts per front
	added   []message          // jobs to be handed out, in their order
	paused  map[engine.Consumer]bool
	ended   []ended // jobs that were to be handed out, and are removed
	answers []answer
	turned  bool   // turn has run for it
	key     []byte // buffer for keys
	value   []byte // buffer for values
}

// ended is a removed job that could be or was handed out.
type ended struct {
	seq uint64
	of  engine.Consumer
}

// answer is the result of an operation.
type answer struct {
	done func(uint64, error)
	seq  uint64
	err  error
}

// beginGroup begins a batch and reuses the memory of the one before.
func (e *Engine) beginGroup(db *pebble.DB) *group {
	g := &e.group
	if g.engine == nil {
		g.engine = e
		g.index, g.items, g.gone = map[string][]entry{}, map[message]item{}, map[message]bool{}
		g.numbers, g.paused = map[numbered]int64{}, map[engine.Consumer]bool{}
	}
	g.db, g.batch, g.now, g.streams, g.turned = db, db.NewBatch(), time.Now().UnixNano(), e.sums.streams, false
	return g
}

// mostKept is the largest number of messages of a group whose memory is reused.
const mostKept = 1024

// forget drops everything that the group holds.
func (g *group) forget() {
	if len(g.index) > mostKept {
		*g = group{} // clearing large maps takes time even when they hold little
		return
	}
	clear(g.index)
	clear(g.items)
	clear(g.gone)
	clear(g.numbers)
	clear(g.paused)
	clear(g.answers)
	g.added, g.ended, g.answers, g.batch = g.added[:0], g.ended[:0], g.answers[:0], nil
}

// do executes one operation and records its answer.
func (g *group) do(o *operation) {
	var seq uint64
	var err error
	switch o.kind {
	case putting:
		seq, err = g.put(&o.put)
	case ending:
		err = g.end(o.puts, o.ends)
	case removing:
		err = g.remove(message{o.stream, o.seq}, o.subject, o.size)
	case pausing:
		err = g.pause(o.of, o.on)
	case turning:
		err = g.turn()
	case settling:
	}
	if err != nil && !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrFull) {
		g.engine.fail(err) // the batch may hold a part of it, and is not written now
	}
	if o.done != nil {
		g.answers = append(g.answers, answer{o.done, seq, err})
	}
}

// end stores messages and removes the message of r, all or nothing.
func (g *group) end(puts []engine.Put, r *receipt) error {
	for i := 1; i < len(puts); i++ {
		if _, _, err := g.check(&puts[i]); err != nil {
			return err
		}
	}
	for i := range puts {
		if _, err := g.put(&puts[i]); err != nil && i > 0 {
			return fmt.Errorf("a part of an end was refused after the rest of it was checked: %v", err) //nolint:errorlint // it ends the engine, whatever it is
		} else if err != nil {
			return err
		}
	}
	if !r.leave() {
		return nil
	}
	return g.drop(message{engine.Jobs, r.record.seq}, r.record.subject, r.record.size)
}

// check returns the item of a put and the messages on its subject, if its conditions
// hold.
func (g *group) check(p *engine.Put) (item, []entry, error) {
	i := item{subject: p.Subject, data: p.Data, time: g.now}
	switch {
	case !p.At.IsZero():
		i.subject, i.target, i.timed, i.due = later(p.Subject), p.Subject, true, nanoseconds(p.At)
	case p.TTL > 0:
		i.timed, i.due = true, nanoseconds(time.Unix(0, g.now).Add(p.TTL))
	}
	before, err := g.entries(p.Stream, i.subject)
	if err != nil {
		return i, nil, err
	}
	newest := uint64(0)
	if n := len(before); n > 0 {
		newest = before[n-1].seq
	}
	if p.New && newest > 0 || p.After > 0 && newest != p.After {
		return i, nil, fmt.Errorf("put %s: %w", i.subject, engine.ErrConflict)
	}
	if err := g.room(p.Stream, i.size()); err != nil {
		return i, nil, fmt.Errorf("put %s: %w", i.subject, err)
	}
	return i, before, nil
}

// put stores a message if its conditions hold.
func (g *group) put(p *engine.Put) (uint64, error) {
	i, before, err := g.check(p)
	if err != nil {
		return 0, err
	}
	if len(before) > 0 && (p.Stream != engine.Jobs || i.target != "") {
		for _, old := range before { // one message per subject
			if err := g.drop(message{p.Stream, old.seq}, i.subject, old.size); err != nil {
				return 0, err
			}
		}
		before = nil
	}
	seq, err := g.add(p.Stream, i, before)
	if err == nil {
		err = g.enforce(p.Stream)
	}
	return seq, err
}

// nanoseconds returns a time as it is stored: times after the year 2262 are stored as the
// last representable one.
func nanoseconds(t time.Time) int64 {
	if t.After(time.Unix(0, math.MaxInt64)) {
		return math.MaxInt64
	}
	return t.UnixNano()
}

// room returns why a message of a size cannot be stored: Jobs is full, which drops
// nothing, or the message would not fit into an empty stream.
func (g *group) room(s engine.Stream, size int64) error {
	o, held := &g.engine.options, g.streams[s].bytes
	bound := [...]int64{engine.Jobs: o.Jobs, engine.Outcomes: o.Outcomes, engine.State: 0, engine.Dead: o.Dead}[s]
	if s != engine.Jobs {
		held = 0
	}
	if bound == 0 || held+size <= bound {
		return nil
	}
	return fmt.Errorf("%w: %v use %d of %d bytes, and this one needs %d more; wait for jobs to end, cancel some, or raise the limit",
		engine.ErrFull, s, held, bound, size)
}

// add stores a checked item on a subject that has these messages.
func (g *group) add(s engine.Stream, i item, entries []entry) (uint64, error) {
	t := &g.streams[s]
	t.last++
	m, n := message{s, t.last}, g.engine.space
	size := i.size()
	g.key = n.appendMessage(g.key[:0], s, m.seq)
	value := g.batch.SetDeferred(len(g.key), i.length())
	copy(value.Key, g.key)
	i.encode(value.Value[:0])
	if err := value.Finish(); err != nil {
		return 0, err
	}
	entries = append(entries[:len(entries):len(entries)], entry{m.seq, size})
	if err := g.setEntries(s, i.subject, entries); err != nil {
		return 0, err
	}
	g.items[m] = i
	t.messages++
	t.bytes += size
	g.count(s, i.subject, 1)
	if i.timed {
		g.engine.sooner(i.due)
		if err := g.batch.Set(n.timed(i.due, s, m.seq), nil, nil); err != nil {
			return 0, err
		}
	}
	if age := g.engine.age(s); age > 0 {
		g.engine.sooner(g.now + age)
	}
	if s != engine.Jobs || i.target != "" {
		return m.seq, nil
	}
	c, _, _ := engine.ParseJob(i.subject)
	g.added = append(g.added, m)
	g.key, g.value = n.appendReady(g.key[:0], c, m.seq), appendTime(g.value[:0], i.time)
	return m.seq, g.batch.Set(g.key, g.value, nil)
}

// entries returns the messages on a subject, including changes of the group.
func (g *group) entries(s engine.Stream, subject string) ([]entry, error) {
	g.key = g.engine.space.appendIndex(g.key[:0], s, subject)
	if entries, ok := g.index[string(g.key)]; ok {
		return entries, nil
	}
	if entries, known := g.engine.recent[s].get(g.key); known {
		return entries, nil
	}
	return readIndex(g.db, g.key)
}

// readIndex reads the messages on a subject.
func readIndex(db *pebble.DB, key []byte) ([]entry, error) {
	value, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := readEntries(value)
	return entries, errors.Join(err, closer.Close())
}

func (g *group) setEntries(s engine.Stream, subject string, entries []entry) error {
	g.key = g.engine.space.appendIndex(g.key[:0], s, subject)
	g.index[string(g.key)] = entries
	if len(entries) == 0 {
		return g.batch.Delete(g.key, nil)
	}
	g.value = appendEntries(g.value[:0], entries)
	return g.batch.Set(g.key, g.value, nil)
}

// find returns a stored message. Its data must not be kept.
func (g *group) find(m message) (i item, found bool, err error) {
	if g.gone[m] {
		return i, false, nil
	}
	if i, found = g.items[m]; found {
		return i, true, nil
	}
	return readMessage(g.db, g.engine.space.message(m.stream, m.seq))
}

// readMessage reads the message at a key. Its data may be kept.
func readMessage(db *pebble.DB, key []byte) (i item, found bool, err error) {
	value, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return i, false, nil
	}
	if err != nil {
		return i, false, err
	}
	i, err = readItem(append([]byte(nil), value...))
	return i, err == nil, errors.Join(err, closer.Close())
}

// remove removes a message, if it exists. subject is empty if the caller does not know
// it.
func (g *group) remove(m message, subject string, size int64) error {
	if subject != "" {
		return g.drop(m, subject, size)
	}
	i, found, err := g.find(m)
	if err != nil || !found {
		return err
	}
	if i.timed {
		if err := g.batch.Delete(g.engine.space.timed(i.due, m.stream, m.seq), nil); err != nil {
			return err
		}
	}
	return g.drop(m, i.subject, i.size())
}

// drop removes a message from its subject, if it exists. If it has a time, its timed key
// stays until then.
func (g *group) drop(m message, subject string, size int64) error {
	n := g.engine.space
	entries, err := g.entries(m.stream, subject)
	if err != nil {
		return err
	}
	var left []entry
	for _, p := range entries {
		if p.seq != m.seq {
			left = append(left, p)
		}
	}
	if len(left) == len(entries) {
		return nil
	}
	if err := g.setEntries(m.stream, subject, left); err != nil {
		return err
	}
	g.key = n.appendMessage(g.key[:0], m.stream, m.seq)
	if err := g.batch.SingleDelete(g.key, nil); err != nil {
		return err
	}
	t := &g.streams[m.stream]
	t.messages--
	t.bytes -= size
	g.count(m.stream, subject, -1)
	delete(g.items, m)
	g.gone[m] = true
	if m.stream != engine.Jobs || strings.HasPrefix(subject, "at.") {
		return nil
	}
	c, _, _ := engine.ParseJob(subject)
	g.ended = append(g.ended, ended{m.seq, c})
	g.engine.hide(c, m.seq)
	g.key = n.appendReady(g.key[:0], c, m.seq)
	return g.batch.SingleDelete(g.key, nil)
}

// pause pauses c, or resumes it.
func (g *group) pause(c engine.Consumer, on bool) error {
	key := g.engine.space.paused(c)
	g.paused[c] = on
	if on {
		return g.batch.Set(key, nil, nil)
	}
	return g.batch.Delete(key, nil)
}
