package jobs

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

const (
	// feedDepth is the buffer of a feed that does not ask for a size.
	feedDepth = 256
	// logDepth is how many events wait for the logger at most.
	logDepth = 1024
	// logPatience is how long Close waits for the logger.
	logPatience = time.Second
)

// journal sends events to subscribers and the logger. Its lock is a leaf: it may be taken
// while any other is held, and nothing blocks under it.
type journal struct {
	ears atomic.Int32  // subscribers and the logger; if there are none, an event costs one load
	Lost atomic.Uint64 // lines dropped because the logger was too slow

	mu     sync.Mutex
	feeds  []*Feed        // guarded by mu
	lines  chan job.Event // to the logger, nil for none; guarded by mu
	closed bool           // guarded by mu
	logged chan struct{}  // closed when the logger has written all; nil for none
}

// open starts the logger, if any. It is called once.
func (j *journal) open(logger *slog.Logger) {
	if logger == nil {
		return
	}
	lines := make(chan job.Event, logDepth)
	j.lines, j.logged = lines, make(chan struct{})
	j.ears.Add(1)
	go j.log(logger, lines) // ends after close, which waits for it up to logPatience
}

func (j *journal) log(logger *slog.Logger, lines <-chan job.Event) {
	defer close(j.logged)
	for e := range lines {
		attrs := make([]slog.Attr, 0, 7)
		for _, a := range []struct{ key, value string }{{"queue", e.Queue}, {"task", e.Task}, {"job", e.Job}, {"schedule", e.Schedule}, {"batch", e.Batch}, {"text", e.Text}} {
			if a.value != "" {
				attrs = append(attrs, slog.String(a.key, a.value))
			}
		}
		if e.Attempt != 0 {
			attrs = append(attrs, slog.Int("attempt", e.Attempt))
		}
		if e.Count != 0 {
			attrs = append(attrs, slog.Int("count", e.Count))
		}
		logger.LogAttrs(context.Background(), levelOf(e.Kind), "queue: "+e.Kind.String(), attrs...) //nolint:sloglint // the kinds are constant
	}
}

// Emit sends an event to all subscribers and the logger. It never blocks: one that is not
// ready misses the event.
func (j *journal) Emit(e job.Event) {
	if j.ears.Load() == 0 {
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
		j.Lost.Add(1)
	}
}

// close ends all subscriptions, and waits until the logger has written what it has.
func (j *journal) close() {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return
	}
	j.closed = true
	j.ears.Store(0)
	for _, f := range j.feeds {
		close(f.c)
	}
	j.feeds = nil
	if j.lines != nil {
		close(j.lines)
		j.lines = nil
	}
	j.mu.Unlock()
	if j.logged == nil {
		return
	}
	select {
	case <-j.logged:
	case <-time.After(logPatience): // a hanging logger must not block Close
	}
}

// Feed is a subscription to events.
type Feed struct {
	// C delivers the events; it is closed by Close and with the queue.
	C       <-chan job.Event
	c       chan job.Event
	dropped atomic.Uint64
	journal *journal
}

// Events implements queue.Queue.Events.
func (q *Jobs) Events(buffer int) *Feed {
	if buffer <= 0 {
		buffer = feedDepth
	}
	c := make(chan job.Event, buffer)
	f := &Feed{C: c, c: c, journal: &q.Journal}
	j := &q.Journal
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

// Dropped returns how many events this feed has missed.
func (f *Feed) Dropped() uint64 { return f.dropped.Load() }

// Close ends the subscription. It may be called more than once.
func (f *Feed) Close() {
	j := f.journal
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.Index(j.feeds, f); i >= 0 {
		j.feeds = slices.Delete(j.feeds, i, i+1)
		j.ears.Add(-1)
		close(f.c)
	}
}

// levelOf returns the log level of an event.
func levelOf(k job.EventKind) slog.Level {
	switch k {
	case job.Damaged, job.Missing, job.StoreFailed:
		return slog.LevelError
	case job.Buried, job.Unreadable, job.Full, job.NotKept, job.HeldOff, job.Redelivered, job.TickSkipped, job.TicksMissed, job.ScheduleFailed:
		return slog.LevelWarn
	case job.ScheduleFired, job.BatchProgress:
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}
