package store

import (
	"errors"
	"runtime"
	"sync"
)

// Group commits for many callers: one goroutine takes the changes of all who wait into
// one transaction.
type Group struct {
	store Store
	wake  chan struct{} // has one element while somebody may wait
	ended chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	waiting []*call // guarded by mu
	closed  bool    // guarded by mu
	commits int     // guarded by mu
	changes int     // guarded by mu
}

// call is one caller's change, and the channel for its result.
type call struct {
	change Change
	done   chan error // has room for one
}

// ErrClosed is the error of a Group that has been closed.
var ErrClosed = errors.New("the group is closed")

// NewGroup returns a Group that commits to s, which is its own from now on.
func NewGroup(s Store) *Group {
	g := &Group{store: s, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go g.run() // ends when Close has been called and nobody waits; Close waits for it
	return g
}

// calls are those that nobody uses now.
var calls = sync.Pool{New: func() any { return &call{done: make(chan error, 1)} }}

// Commit returns when c is on the disk. It may be called at once by many goroutines.
func (g *Group) Commit(c Change) error {
	mine := calls.Get().(*call)
	mine.change = c
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return ErrClosed
	}
	g.waiting = append(g.waiting, mine)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	err := <-mine.done
	mine.change = Change{}
	calls.Put(mine)
	return err
}

func (g *Group) run() {
	defer close(g.ended)
	var taken []*call
	var changes []Change
	for {
		<-g.wake
		// Those who have just been told of the last commit come back first: without this
		// the first of them would have a commit to itself.
		runtime.Gosched()
		g.mu.Lock()
		taken, g.waiting = g.waiting, taken[:0]
		closed := g.closed
		if len(taken) > 0 {
			g.commits++
			g.changes += len(taken)
		}
		g.mu.Unlock()
		if len(taken) > 0 {
			changes = changes[:0]
			for _, c := range taken {
				changes = append(changes, c.change)
			}
			err := g.store.Commit(changes)
			for _, c := range taken {
				c.done <- err
			}
		}
		if closed {
			return
		}
	}
}

// PerCommit returns how many changes a commit had, on the average.
func (g *Group) PerCommit() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return float64(g.changes) / float64(max(g.commits, 1))
}

// Close ends the group, when those who wait have been told, but not the store.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	<-g.ended
}
