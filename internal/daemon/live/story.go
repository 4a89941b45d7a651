package live

import (
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/feed"
)

// story has the events of one attempt of a task. It is the task's observer, and
// passes events on to the task's own one.
type story struct {
	hub     *Hub
	key     key
	pool    string
	attempt int
	began   time.Time
	inner   bullpen.Observer            // the task's own observer; nil for none
	done    func(bullpen.Result, error) // of the caller of Submit
	until   time.Time                   // when to forget the story; guarded by hub.mu

	mu     sync.Mutex
	ended  bool    // guarded by mu
	n      uint64  // events so far, without Began; guarded by mu
	first  int     // index of the first of events that is not dropped; guarded by mu
	events []Event // guarded by mu
	bytes  int     // size of events; guarded by mu

	feeds feed.Source[Event] // used with mu held
}

// Progress records progress.
func (s *story) Progress(fraction float64, note string) {
	s.add(Event{Kind: Progressed, Time: time.Now(), Fraction: fraction, Note: cut(note)})
	if s.inner != nil {
		s.inner.Progress(fraction, note)
	}
}

// Log records a line.
func (s *story) Log(line bullpen.LogLine) {
	e := Event{Kind: Logged, Time: line.Time, Line: line}
	e.Line.Text = cut(line.Text)
	s.add(e)
	if s.inner != nil {
		s.inner.Log(line)
	}
}

// add records an event and sends it to followers.
func (s *story) add(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.append(&e)
}

// append is add with s.mu held.
func (s *story) append(e *Event) {
	s.n++
	e.Position = Position{Attempt: s.attempt, N: s.n}
	size := e.size()
	s.events = append(s.events, *e)
	s.bytes += size
	s.hub.use(size)
	for len(s.events)-s.first > 1 && (s.bytes > s.hub.config.TaskBytes || len(s.events)-s.first > s.hub.config.TaskEvents || s.hub.over()) {
		s.dropFirst()
	}
	if s.first > len(s.events)/2 { // amortized, each event is moved once
		rest := copy(s.events, s.events[s.first:])
		clear(s.events[rest:])
		s.events, s.first = s.events[:rest], 0
	}
	s.feeds.Send(*e)
}

// dropFirst drops the oldest event. s.mu is held.
func (s *story) dropFirst() {
	size := s.events[s.first].size()
	s.events[s.first] = Event{}
	s.first++
	s.bytes -= size
	s.hub.use(-size)
}

// forget drops all events of an ended story.
func (s *story) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hub.use(-s.bytes)
	s.events, s.first, s.bytes = nil, 0, 0
}

// end marks the end of the attempt, and reports whether there are events to keep for
// late followers.
func (s *story) end() (keep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep = len(s.events) > s.first
	heard := s.feeds.Heard()
	if keep || heard {
		s.append(&Event{Kind: Ended, Time: time.Now()})
	}
	s.ended = true
	if heard {
		s.feeds.Close()
	}
	return keep
}

// past appends the kept events later than after. s.mu is held.
func (s *story) past(to []Event, after Position) []Event {
	if p := (Position{Attempt: s.attempt}); p.After(after) {
		to = append(to, Event{Position: p, Kind: Began, Time: s.began})
	}
	for i := range s.events[s.first:] {
		if e := &s.events[s.first+i]; e.Position.After(after) {
			to = append(to, *e)
		}
	}
	return to
}

// follow returns a feed of s that begins with past and the events of s later than
// after. It returns nil if there are no events and none will come.
func (s *story) follow(past []Event, after Position) *Feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	past = s.past(past, after)
	if s.ended {
		return finished(past)
	}
	return s.feeds.Feed(0, past...)
}

// finished returns a feed of past events only; nil if there are none.
func finished(past []Event) *Feed {
	if len(past) == 0 {
		return nil
	}
	var over feed.Source[Event]
	over.Close()
	return over.Feed(0, past...)
}
