package pool

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/feed"
)

// overloadGap is the minimum time between two Overloaded events.
const overloadGap = time.Second

// journal sends events to subscribers and to the logger. It may be used with any lock held.
type journal struct {
	feed.Source[Event]

	log        *feed.Log[Event] // nil without a logger
	overloaded atomic.Int64     // the pool's time of the last Overloaded event
}

// open starts the logger, if there is one. It is called once, before the pool is shared.
func (j *journal) open(logger *slog.Logger, name string) {
	if logger != nil {
		logger = logger.With("pool", name)
		j.log = j.Log(func(e Event) { e.log(logger) })
	}
}

// emit sends an event to all listeners. It never blocks: a listener without room misses it.
func (j *journal) emit(e Event) {
	if j.Heard() {
		e.Time = time.Now()
		j.Send(e)
	}
}

// emit sends an event of the worker.
func (w *worker) emit(e Event) {
	if j := &w.pool.journal; j.Heard() {
		e.Worker = w.name()
		j.emit(e)
	}
}

// overload emits an event that a queue was full, at most once per overloadGap.
func (p *Pool) overload(k *kind, text string) {
	j := &p.journal
	if !j.Heard() {
		return
	}
	now, last := p.now(), j.overloaded.Load()
	if last != 0 && now-last < int64(overloadGap) || !j.overloaded.CompareAndSwap(last, now) {
		return
	}
	j.emit(Event{Kind: Overloaded, Task: k.name, Text: text})
}

// log writes the event.
func (e Event) log(logger *slog.Logger) {
	attrs := []slog.Attr{slog.String("event", e.Kind.String()), slog.Time("at", e.Time)}
	if e.Worker != "" {
		attrs = append(attrs, slog.String("worker", e.Worker))
	}
	if e.Task != "" {
		attrs = append(attrs, slog.String("task", e.Task))
	}
	if e.Count != 0 {
		attrs = append(attrs, slog.Int("count", e.Count))
	}
	if e.Text != "" {
		attrs = append(attrs, slog.String("text", e.Text))
	}
	if e.Stack != "" {
		attrs = append(attrs, slog.String("stack", e.Stack))
	}
	logger.LogAttrs(context.Background(), e.level(), "event", attrs...)
}

// dropped emits an event with the number of tasks that the shutdown of the pool has failed.
func (p *Pool) dropped(n int) {
	if n > 0 {
		p.journal.emit(Event{Kind: Dropped, Count: n, Text: fmt.Sprintf("the pool is %v", p.state.State())})
	}
}
