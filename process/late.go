package process

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// late delivers outcomes to done functions of callers, which may be slow. It calls them
// on a goroutine of its own, which runs only while there are outcomes to deliver. If a
// function does not return within a millisecond, another goroutine takes over the rest.
// Outcomes that wait here occupy places of the queue, so their number is bounded.
type late struct {
	pool    *Pool
	waiting atomic.Int64 // undelivered outcomes

	mu      sync.Mutex
	calls   []*call // guarded by mu
	runners int     // guarded by mu
	taken   uint64  // calls taken by runners; guarded by mu
	watched bool    // a timer checks for progress; guarded by mu
}

// lateAfter is how long one function may delay the others.
const lateAfter = time.Millisecond

// put queues the outcome of c. It does not block.
func (l *late) put(c *call) {
	l.waiting.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
	if l.runners == 0 {
		l.start()
		return
	}
	l.watch()
}

// start adds a goroutine that delivers outcomes. It ends when none is left, and the end
// of the pool waits for it. late.mu is held.
func (l *late) start() {
	l.runners++
	l.pool.tasks.Go(l.run)
}

// watch checks after lateAfter whether there was progress. late.mu is held.
func (l *late) watch() {
	if l.watched {
		return
	}
	l.watched = true
	before := l.taken
	time.AfterFunc(lateAfter, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.watched = false
		if len(l.calls) == 0 {
			return
		}
		if l.taken == before {
			l.start()
		}
		l.watch()
	})
}

func (l *late) run() {
	for {
		l.mu.Lock()
		if len(l.calls) == 0 {
			l.runners--
			l.calls = nil
			l.mu.Unlock()
			return
		}
		c := l.calls[0]
		l.calls[0] = nil
		l.calls = l.calls[1:]
		l.taken++
		l.mu.Unlock()
		l.call(c)
		l.waiting.Add(-1)
		l.pool.informed.Add(1)
		if l.pool.blocked.n.Load() > 0 {
			l.pool.mu.Lock()
			l.pool.admit()
			l.pool.mu.Unlock()
		}
	}
}

// call calls the caller's function. A panic counts as a return.
func (l *late) call(c *call) {
	defer func() {
		if r := recover(); r != nil {
			l.pool.logs.fault(fmt.Errorf("the function given to Submit panicked: %v", r))
		}
	}()
	c.done(c.result, c.err)
}
