package live

import "sync/atomic"

// feedRoom is how many events a feed buffers for a slow reader, beyond those that it
// began with.
const feedRoom = 256

// Feed delivers the events of one task as they happen. A reader that is slower than
// its task loses events, and never slows the task.
type Feed struct {
	// C delivers the events; it is closed when the attempt has ended, and by Close.
	C <-chan Event

	events  chan Event // C; written and closed with story.mu held
	story   *story     // source of the events; nil if no more will come
	closed  bool       // guarded by story.mu
	dropped atomic.Uint64
}

// newFeed returns a feed that begins with past events.
func newFeed(s *story, past []Event, room int) *Feed {
	f := &Feed{events: make(chan Event, len(past)+room), story: s}
	f.C = f.events
	for i := range past {
		f.events <- past[i]
	}
	return f
}

// Close ends the feed. It may be called more than once.
func (f *Feed) Close() {
	s := f.story
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.closed {
		return
	}
	f.end()
	for i := range s.feeds {
		if s.feeds[i] == f {
			s.feeds = append(s.feeds[:i], s.feeds[i+1:]...)
			return
		}
	}
}

// end closes C. story.mu is held, and f is not closed.
func (f *Feed) end() {
	f.closed = true
	close(f.events)
}

// tell sends f an event. story.mu is held.
func (f *Feed) tell(e *Event) {
	select {
	case f.events <- *e:
	default:
		f.dropped.Add(1)
	}
}

// Dropped returns how many events this feed has missed.
func (f *Feed) Dropped() uint64 { return f.dropped.Load() }
