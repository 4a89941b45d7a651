package feed

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// LogDepth is how many events wait for a log at most.
	LogDepth = 1024
	// LogPatience is how long Wait waits for a log.
	LogPatience = time.Second
)

// Log writes the events of a source. A nil Log writes none.
type Log[E any] struct {
	feed   *Feed[E]
	panics atomic.Uint64
	ended  chan struct{}
	wait   sync.Once // sets until
	until  time.Time // when Wait gives up
}

// Log starts a goroutine that calls write for each event until the source is closed.
func (s *Source[E]) Log(write func(E)) *Log[E] {
	l := &Log[E]{feed: s.Feed(LogDepth), ended: make(chan struct{})}
	go l.run(write) // ends after s.Close; Wait waits for it up to LogPatience
	return l
}

func (l *Log[E]) run(write func(E)) {
	defer close(l.ended)
	for e := range l.feed.C {
		l.write(write, e)
	}
}

// write writes one event. write calls a slog handler, which is user code: if it panics,
// the event is lost, but the program goes on.
func (l *Log[E]) write(write func(E), e E) {
	defer func() {
		if recover() != nil {
			l.panics.Add(1)
		}
	}()
	write(e)
}

// Lost returns how many events were not written, because write was too slow or panicked.
func (l *Log[E]) Lost() uint64 {
	if l == nil {
		return 0
	}
	return l.feed.Dropped() + l.panics.Load()
}

// Wait waits until the events before the end of the source are written. It gives up
// LogPatience after the first call, because write may hang.
func (l *Log[E]) Wait() {
	if l == nil {
		return
	}
	l.wait.Do(func() { l.until = time.Now().Add(LogPatience) })
	select {
	case <-l.ended:
	case <-time.After(time.Until(l.until)):
	}
}
