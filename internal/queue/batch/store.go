package batch

import (
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// store stores the counts of a batch without waiting for the store.
func (q *Batches) store(t *roster) {
	for _, p := range t.unstored() {
		q.Engine.Put(p, func(_ uint64, err error) {
			switch {
			case err != nil:
				_, number, _, _ := record.ParseBits(p.Subject)
				t.mu.Lock()
				t.changed[number] = true // the next tick stores it
				t.mu.Unlock()
			case q.Engine.Shared():
				q.Engine.Send("bend", append([]byte(p.Subject+" "), p.Data...)) //nolint:errcheck // others also read what is stored
			}
		})
	}
}

// unstored returns the Puts for the changed counts, and emits a progress event.
func (t *roster) unstored() []engine.Put {
	q := t.batches
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.record == nil || !t.record.Ended.IsZero() || t.left {
		return nil
	}
	var puts []engine.Put
	for number := range t.changed {
		t.stored = true
		subject := record.BitsSubject(t.id, number, t.batches.run)
		puts = append(puts, engine.Put{Stream: engine.State, Subject: subject, Data: t.chunks[number].Encode(subject, t.record.Created)})
	}
	clear(t.changed)
	if now := time.Now(); len(puts) > 0 && now.Sub(t.shownAt) >= showPause {
		t.shownAt = now
		i := t.record.Info()
		t.counted(&i)
		q.Journal.Emit(job.Event{Kind: job.BatchProgress, Batch: t.id, Count: i.Ended, Text: counts(&i)})
	}
	return puts
}

// subscribe subscribes to the counts and changed records of other nodes.
func (q *Batches) subscribe() (stop func()) {
	if !q.Engine.Shared() {
		return func() {}
	}
	var stops []func()
	for subject, changed := range map[string]func(string, []byte){
		"bend": func(_ string, data []byte) {
			subject, bits, _ := strings.Cut(string(data), " ")
			id, _, _, ok := record.ParseBits(subject)
			if t := q.known(id); ok && t != nil {
				q.readBits(engine.Message{Subject: subject, Data: []byte(bits)}, t)
			}
		},
		"batch": func(_ string, run []byte) {
			if string(run) != q.run {
				q.stale.Store(true)
				q.signal()
			}
		},
	} {
		stop, err := q.Engine.Listen(subject, changed)
		if err != nil {
			q.Journal.Emit(job.Event{Kind: job.NotKept, Text: "the batch counts of other nodes are only read every second: " + err.Error()})
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

// changed notifies other nodes that a record was stored.
func (q *Batches) changed() {
	if e := q.Engine; e.Shared() {
		e.Send("batch", []byte(q.run)) //nolint:errcheck // others also look each second
	}
}
