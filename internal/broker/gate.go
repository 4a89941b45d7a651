package broker

import (
	"fmt"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// waiter is one confirm that waits for the disk.
type waiter struct {
	entry engine.Entry
	done  func(error)
}

// gate confirms many messages by one sync of the disk. Those that come while a
// sync runs are the next group, so the size of a group follows the disk.
type gate struct {
	sync    func() error   // makes durable what was written; nil when the server has done so before it answered
	count   func([]waiter) // notes a group that is durable, before its callbacks
	flush   func()         // writes what count has noted; nil when there is nothing to write
	check   func() error   // says whether the server still stores
	failure *failure
	stats   stats
	wake    chan struct{} // has a token when waiting is not empty or closing is set
	ended   chan struct{} // closed when run has returned

	mu      sync.Mutex
	waiting []waiter // guarded by mu
	closing bool     // guarded by mu: nothing more is taken
}

func newGate(sync func() error, count func([]waiter), check func() error, f *failure) *gate {
	return &gate{
		sync: sync, count: count, check: check, failure: f,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// confirm puts a confirm into the current group. It tells whether the gate
// still takes any.
func (g *gate) confirm(w waiter) bool {
	g.mu.Lock()
	if g.closing {
		g.mu.Unlock()
		return false
	}
	first := len(g.waiting) == 0
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	if first {
		g.ring()
	}
	return true
}

func (g *gate) ring() {
	select {
	case g.wake <- struct{}{}:
	default: // it is awake already, or about to be
	}
}

// close answers what waits and ends run.
func (g *gate) close() {
	g.mu.Lock()
	g.closing = true
	g.mu.Unlock()
	g.ring()
	<-g.ended
}

// start lets the gate run.
func (g *gate) start() { go g.run() }

// run is the goroutine of the gate. start starts it, close ends it and waits.
func (g *gate) run() {
	defer close(g.ended)
	var spare []waiter
	for {
		<-g.wake
		g.mu.Lock()
		group, closing := g.waiting, g.closing
		g.waiting = spare[:0]
		g.mu.Unlock()
		g.settle(group)
		clear(group)
		spare = group
		if closing {
			return // nothing was taken since closing was set
		}
	}
}

// settle makes a group durable and answers it.
func (g *gate) settle(group []waiter) {
	if len(group) == 0 {
		return
	}
	err := g.failure.get()
	if err == nil && g.sync != nil {
		start := time.Now()
		if cause := g.sync(); cause != nil {
			err = g.failure.set(fmt.Errorf("syncing the disk: %w; what was not confirmed may be lost: look after the disk, then start the program again", cause))
		} else {
			g.stats.synced(time.Since(start))
		}
	}
	if err == nil {
		g.count(group)
		if g.flush != nil {
			g.flush() // before the callbacks, so that a kill leaves none out
		}
		g.stats.confirmed(len(group))
	}
	for _, w := range group {
		w.done(err)
	}
	if err == nil {
		if cause := g.check(); cause != nil {
			_ = g.failure.set(cause) // for those to come; this group is on the disk
		}
	}
}
