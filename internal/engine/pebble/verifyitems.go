package pebble

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Each of these methods checks one key of a namespace n. An error means that something
// the key refers to could not be read.

// counts records the stored totals of the streams.
func (v *verifier) counts(_ space, c *counted, key, value []byte) error {
	t, err := readTotals(value)
	if err != nil || len(key) != 3 {
		v.strange(key, "the counts differ from what was written")
		return nil //nolint:nilerr // it is reported
	}
	c.said = t
	return nil
}

// number records the stored number of messages of a front.
func (v *verifier) number(_ space, c *counted, key, value []byte) error {
	count, err := readCount(value)
	if err != nil || len(key) < 4 || key[3] != byte(engine.Jobs) && key[3] != byte(engine.Dead) {
		v.strange(key, "the number differs from what was written")
		return nil //nolint:nilerr // it is reported
	}
	c.stated[numbered{engine.Stream(key[3]), string(key[4:])}] = count
	return nil
}

// paused checks the entry of a paused consumer.
func (v *verifier) paused(_ space, _ *counted, key, _ []byte) error {
	if _, ok := consumerIn(key[3:]); !ok {
		v.strange(key, "it names no consumer")
	}
	return nil
}

// consumerIn decodes the part of a key that names a consumer.
func consumerIn(b []byte) (engine.Consumer, bool) {
	queue, rest, _ := strings.Cut(string(b), "\x00")
	level, end, ok := strings.Cut(rest, "\x00")
	if !ok || end != "" {
		return engine.Consumer{}, false
	}
	c, _, ok := engine.ParseJob("job." + queue + "." + level + ".id")
	return c, ok
}

// index compares an index entry with the messages that it names.
func (v *verifier) index(n space, _ *counted, key, value []byte) error {
	if len(key) < 4 || int(key[3]) >= len(engine.Streams()) {
		v.strange(key, "it belongs to no stream")
		return nil
	}
	s := engine.Stream(key[3])
	subject, ok := subjectAt(s, key)
	if !ok || engine.CheckSubject(subject) != nil {
		v.strange(key, "it names no subject")
		return nil //nolint:nilerr // it is reported
	}
	wrong := func(seq uint64, text string) {
		v.report(Damage{Kind: "index", Namespace: v.names[n], Stream: s.String(), Subject: subject, Job: jobOf(s, subject), Seq: seq, Text: text})
	}
	entries, err := readEntries(value)
	if err != nil {
		wrong(0, "the entry differs from what was written")
		return nil //nolint:nilerr // it is reported
	}
	for _, p := range entries {
		i, found, err := v.message(n, message{s, p.seq})
		switch {
		case errors.Is(err, errRecord):
			wrong(p.seq, "its message differs from what was written")
		case err != nil:
			wrong(p.seq, "its message cannot be read: "+err.Error())
			v.broken = true
		case !found:
			wrong(p.seq, "its message is missing")
		case i.subject != subject:
			wrong(p.seq, "its message is on the subject "+i.subject)
		}
	}
	return nil
}

// message reads a message.
func (v *verifier) message(n space, m message) (i item, found bool, err error) {
	err = recovered(func() (err error) {
		i, found, err = readMessage(v.db, n.message(m.stream, m.seq))
		return err
	})
	return i, found, err
}

// has reports whether a key exists.
func (v *verifier) has(key []byte) (found bool, err error) {
	err = recovered(func() error {
		_, closer, err := v.db.Get(key)
		if errors.Is(err, pebble.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		found = true
		return closer.Close()
	})
	return found, err
}

// stored compares a message with the entries that refer to it.
func (v *verifier) stored(n space, c *counted, key, value []byte) error {
	if len(key) != 12 || int(key[3]) >= len(c.found) {
		v.strange(key, "it is not a message of a stream")
		return nil
	}
	s := engine.Stream(key[3])
	seq, _ := seqOf(key)
	c.last[s] = max(c.last[s], seq)
	i, err := readItem(value)
	d := Damage{Kind: "message", Namespace: v.names[n], Stream: s.String(), Seq: seq}
	if err != nil || engine.CheckSubject(i.subject) != nil || i.target != "" && s != engine.Jobs {
		d.Text = "it differs from what was written"
		v.report(d)
		v.broken = true // its size is unknown
		return nil      //nolint:nilerr // it is reported
	}
	d.Subject, d.Job = i.subject, jobOf(s, i.subject)
	t := &c.found[s]
	t.messages++
	t.bytes += i.size()
	if s == engine.Jobs || s == engine.Dead {
		c.numbers[numbered{s, front(i.subject)}]++
	}
	v.holds(s, &i, d)
	return errors.Join(v.indexed(n, message{s, seq}, &i, d), v.referred(n, message{s, seq}, &i, d))
}

// holds checks the content of a message.
func (v *verifier) holds(s engine.Stream, i *item, d Damage) {
	if v.check == nil {
		return
	}
	if err := v.check(engine.Message{Stream: s, Subject: i.subject, Data: i.data, Seq: d.Seq}); err != nil {
		d.Kind, d.Text = "record", err.Error()
		v.report(d)
	}
}

// indexed looks for a message in the index.
func (v *verifier) indexed(n space, m message, i *item, d Damage) error {
	var entries []entry
	err := recovered(func() (err error) {
		entries, err = readIndex(v.db, n.index(m.stream, i.subject))
		return err
	})
	at := slices.IndexFunc(entries, func(p entry) bool { return p.seq == m.seq })
	switch {
	case errors.Is(err, errRecord):
		return nil // index reports it
	case err != nil:
		return err
	case at < 0:
		d.Text = "it is missing in the index, so it cannot be found by its name"
	case entries[at].size != i.size():
		d.Text = fmt.Sprintf("it has %d bytes, but the index says %d", i.size(), entries[at].size)
	default:
		return nil
	}
	v.report(d)
	return nil
}

// referred looks for the entries that refer to a message.
func (v *verifier) referred(n space, m message, i *item, d Damage) error {
	refers := func(key []byte, text string) error {
		found, err := v.has(key)
		if err == nil && !found {
			d.Text = text
			v.report(d)
		}
		return err
	}
	if i.timed {
		return refers(n.timed(i.due, m.stream, m.seq), "the entry for its time is missing")
	}
	if m.stream != engine.Jobs {
		return nil
	}
	of, _, ok := engine.ParseJob(i.subject)
	if !ok {
		d.Text = "its subject does not belong to a job"
		v.report(d)
		return nil
	}
	return refers(n.ready(of, m.seq), "it is missing in the list of jobs to deliver")
}

// ready compares the entry of a job that can be handed out with the job.
func (v *verifier) ready(n space, _ *counted, key, value []byte) error {
	seq, ok := seqOf(key)
	of, is := engine.Consumer{}, false
	if ok && len(key) >= 11 {
		of, is = consumerIn(key[3 : len(key)-8])
	}
	if !is {
		v.strange(key, "it names no consumer")
		return nil
	}
	at, bad := readTime(value)
	i, found, err := v.message(n, message{engine.Jobs, seq})
	d := Damage{Kind: "ready", Namespace: v.names[n], Stream: engine.Jobs.String(), Subject: i.subject, Seq: seq}
	if found {
		d.Job = jobOf(engine.Jobs, i.subject)
	}
	switch is, _, _ := engine.ParseJob(i.subject); {
	case errors.Is(err, errRecord):
		return nil // stored reports it
	case err != nil:
		return err
	case !found:
		d.Text = "there is no such job to deliver"
	case i.target != "" || is != of:
		d.Text = fmt.Sprintf("it is listed for delivery under %s.%s", of.Queue, of.Level())
	case bad != nil || at != i.time:
		d.Text = "the start of its wait differs from what was written"
	default:
		return nil
	}
	v.report(d)
	return nil
}

// timed checks a timed key. Its message may be gone: the key is removed when it is due.
func (v *verifier) timed(n space, c *counted, key, _ []byte) error {
	_, s, seq, ok := readTimed(key)
	if !ok || int(s) >= len(c.found) {
		v.strange(key, "it names no time and message")
		return nil
	}
	if last := c.said[s].last; seq > last && !v.broken {
		v.report(Damage{Kind: "timed", Namespace: v.names[n], Stream: s.String(), Seq: seq,
			Text: fmt.Sprintf("it has an entry for a later time, but the last message has number %d", last)})
	}
	return nil
}
