// Package feed sends events to any number of readers, of which none can slow the sender: a
// reader that is too slow loses events, and they are counted.
package feed

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Depth is how many events a feed holds for a slow reader if it asks for no size.
const Depth = 256

// Source is where the events come from. The zero value works. All methods are safe for
// concurrent use and never block; they may be called with any lock held.
type Source[E any] struct {
	open atomic.Int32 // number of feeds; while there are none, an event costs one load

	mu     sync.Mutex
	feeds  []*Feed[E] // guarded by mu
	closed bool       // guarded by mu
}

// Feed is a subscription to the events of a source.
type Feed[E any] struct {
	// C delivers the events. It is closed by Close and with the source.
	C <-chan E

	c       chan E // C; written and closed with source.mu held
	source  *Source[E]
	dropped atomic.Uint64
}

// Heard reports whether there are feeds.
func (s *Source[E]) Heard() bool { return s.open.Load() > 0 }

// Send sends an event to all feeds. A feed without room misses it.
func (s *Source[E]) Send(e E) {
	if !s.Heard() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.feeds {
		select {
		case f.c <- e:
		default:
			f.dropped.Add(1)
		}
	}
}

// Feed subscribes to the events from now on. buffer is the number of events held for a
// slow reader; 0 means Depth. The feed begins with the events in past, which do not count.
// That of a closed source ends behind them.
func (s *Source[E]) Feed(buffer int, past ...E) *Feed[E] {
	if buffer <= 0 {
		buffer = Depth
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		buffer = 0
	}
	c := make(chan E, len(past)+buffer)
	for _, e := range past {
		c <- e
	}
	f := &Feed[E]{C: c, c: c, source: s}
	if s.closed {
		close(c)
		return f
	}
	s.feeds = append(s.feeds, f)
	s.open.Add(1)
	return f
}

// Close ends all feeds. Later events are not sent. It may be called again.
func (s *Source[E]) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.open.Store(0)
	for _, f := range s.feeds {
		close(f.c)
	}
	s.feeds = nil
}

// Dropped returns how many events the feed has missed.
func (f *Feed[E]) Dropped() uint64 { return f.dropped.Load() }

// Close ends the feed. It may be called again.
func (f *Feed[E]) Close() {
	s := f.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.feeds, f); i >= 0 {
		s.feeds = slices.Delete(s.feeds, i, i+1)
		s.open.Add(-1)
		close(f.c)
	}
}
