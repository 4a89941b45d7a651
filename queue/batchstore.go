package queue

import (
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// store puts away what was counted of a batch, without waiting for it.
func (b *batches) store(t *roster) {
	q := b.queue
	for _, p := range t.unstored() {
		q.engine.Put(p, func(_ uint64, err error) {
			switch {
			case err != nil:
				_, number, _, _ := parseBits(p.Subject)
				t.mu.Lock()
				t.changed[number] = true // the next tick stores it
				t.mu.Unlock()
			case q.engine.Shared():
				q.engine.Send("bend", append([]byte(p.Subject+" "), p.Data...)) //nolint:errcheck // others also read what is stored
			}
		})
	}
}

// unstored gives what is to be stored of a batch, and tells how far it is.
func (t *roster) unstored() []engine.Put {
	q := t.batches.queue
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.record == nil || !t.record.ended.IsZero() || t.left {
		return nil
	}
	var puts []engine.Put
	for number := range t.changed {
		t.stored = true
		subject := bitsSubject(t.id, number, t.batches.run)
		puts = append(puts, engine.Put{Stream: engine.State, Subject: subject, Data: t.chunks[number].encode(subject, t.record.created)})
	}
	clear(t.changed)
	if now := time.Now(); len(puts) > 0 && now.Sub(t.shownAt) >= showPause {
		t.shownAt = now
		i := t.record.info()
		t.counted(&i)
		q.journal.emit(Event{Kind: BatchProgress, Batch: t.id, Count: i.Ended, Text: i.counts()})
	}
	return puts
}

// hear takes in what other nodes have counted, and that they have changed a record.
func (b *batches) hear() (stop func()) {
	q := b.queue
	if !q.engine.Shared() {
		return func() {}
	}
	var stops []func()
	for subject, heard := range map[string]func(string, []byte){
		"bend": func(_ string, data []byte) {
			subject, record, _ := strings.Cut(string(data), " ")
			id, _, _, ok := parseBits(subject)
			if t := b.known(id); ok && t != nil {
				b.readBits(engine.Message{Subject: subject, Data: []byte(record)}, t)
			}
		},
		"batch": func(_ string, run []byte) {
			if string(run) != b.run {
				b.stale.Store(true)
				b.signal()
			}
		},
	} {
		stop, err := q.engine.Listen(subject, heard)
		if err != nil {
			q.journal.emit(Event{Kind: NotKept, Text: "what other nodes count of batches is only read each second: " + err.Error()})
			continue
		}
		stops = append(stops, stop)
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// changed tells other nodes that a record was stored.
func (b *batches) changed() {
	if e := b.queue.engine; e.Shared() {
		e.Send("batch", []byte(b.run)) //nolint:errcheck // others also look each second
	}
}
