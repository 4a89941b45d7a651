package pool

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// feedDepth is the default number of events that a feed holds.
	feedDepth = 256
	// logDepth is the maximum number of events that wait for the logger.
	logDepth = 1024
	// logPatience is how long the shutdown of a pool waits for the logger.
	logPatience = time.Second
	// overloadGap is the minimum time between two Overloaded events.
	overloadGap = time.Second
)

// journal sends events to subscribers and to the logger. Its lock may be taken with any
// other lock held, and no code blocks while holding it.
type journal struct {
	// ears is the number of listeners: feeds, and the logger. Without listeners, an event
	// costs one load.
	ears       atomic.Int32
	lost       atomic.Uint64 // events dropped because the logger was too slow
	overloaded atomic.Int64  // the pool's time of the last Overloaded event

	mu     sync.Mutex
	feeds  []*Feed       // guarded by mu
	lines  chan Event    // to the logger, nil without one; guarded by mu
	closed bool          // guarded by mu
	until  time.Time     // until when the shutdown waits for the logger; guarded by mu
	logged chan struct{} // closed when the logger has written everything; nil without a logger
}

// open starts the logger, if there is one. It is called once, before the pool is shared.
func (j *journal) open(logger *slog.Logger, name string) {
	if logger == nil {
		return
	}
	lines := make(chan Event, logDepth)
	j.lines, j.logged = lines, make(chan struct{})
	j.ears.Add(1)
	go j.log(logger.With("pool", name), lines) // ends after close; wait waits for it up to logPatience
}

// heard reports whether there are listeners.
func (j *journal) heard() bool { return j.ears.Load() > 0 }

// emit sends an event to all listeners. It never blocks: a listener without room misses it.
func (j *journal) emit(e Event) {
	if !j.heard() {
		return
	}
	e.Time = time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, f := range j.feeds {
		select {
		case f.c <- e:
		default:
			f.dropped.Add(1)
		}
	}
	if j.lines == nil {
		return
	}
	select {
	case j.lines <- e:
	default:
		j.lost.Add(1)
	}
}

// emit sends an event of the worker.
func (w *worker) emit(e Event) {
	if j := &w.pool.journal; j.heard() {
		e.Worker = w.name()
		j.emit(e)
	}
}

// overload emits an event that a queue was full, at most once per overloadGap.
func (p *Pool) overload(k *kind, text string) {
	j := &p.journal
	if !j.heard() {
		return
	}
	now, last := p.now(), j.overloaded.Load()
	if last != 0 && now-last < int64(overloadGap) || !j.overloaded.CompareAndSwap(last, now) {
		return
	}
	j.emit(Event{Kind: Overloaded, Task: k.name, Text: text})
}

func (j *journal) subscribe(buffer int) *Feed {
	if buffer <= 0 {
		buffer = feedDepth
	}
	c := make(chan Event, buffer)
	f := &Feed{C: c, c: c, journal: j}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		close(c)
		return f
	}
	j.feeds = append(j.feeds, f)
	j.ears.Add(1)
	return f
}

func (j *journal) unsubscribe(f *Feed) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.Index(j.feeds, f); i >= 0 {
		j.feeds = slices.Delete(j.feeds, i, i+1)
		j.ears.Add(-1)
		close(f.c)
	}
}

// close ends all subscriptions, and the logger once it has written everything. Later
// events, such as the return of an abandoned body, are not sent, only counted.
func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.closed, j.until = true, time.Now().Add(logPatience)
	j.ears.Store(0)
	for _, f := range j.feeds {
		close(f.c)
	}
	j.feeds = nil
	if j.lines != nil {
		close(j.lines)
		j.lines = nil
	}
}

// wait waits until the logger has written everything, or for logPatience after close. A
// logger that is blocked for longer keeps its goroutine until it returns.
func (j *journal) wait() {
	if j.logged == nil {
		return
	}
	j.mu.Lock()
	patience := time.NewTimer(time.Until(j.until))
	j.mu.Unlock()
	defer patience.Stop()
	select {
	case <-j.logged:
	case <-patience.C:
	}
}

// log writes events until the journal is closed.
func (j *journal) log(logger *slog.Logger, lines <-chan Event) {
	defer close(j.logged)
	for e := range lines {
		j.write(logger, e)
	}
}

// write writes one event. If the slog handler panics, the event is lost, but the program
// goes on.
func (j *journal) write(logger *slog.Logger, e Event) {
	defer func() {
		if recover() != nil {
			j.lost.Add(1)
		}
	}()
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
