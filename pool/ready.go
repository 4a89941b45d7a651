package pool

import (
	"sync"
	"sync/atomic"
)

// readyLanes are the lanes with a task that may start now. They stand in a row:
// who comes takes one task of the first, which goes to the end if it has more. So
// no lane waits for more than one task of each other lane.
type readyLanes struct {
	n     atomic.Int32            // how many there are; written with mu held
	gates atomic.Pointer[[]*gate] // of the pool and of all lanes; replaced with Pool.mu held

	mu          sync.Mutex
	first, last *Lane // linked by Lane.behind. mu guards them and the links
}

func (r *readyLanes) push(l *Lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.first = l
	} else {
		r.last.behind = l
	}
	r.last = l
	r.n.Add(1)
}

func (r *readyLanes) pop() *Lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.first
	if l == nil {
		return nil
	}
	r.first, l.behind = l.behind, nil
	if r.first == nil {
		r.last = nil
	}
	r.n.Add(-1)
	return l
}

// take gives the worker, who has none, a task of the lane whose turn it is, and
// starts it.
func (r *readyLanes) take(w *worker) bool {
	for l := r.pop(); l != nil; l = r.pop() {
		if l.take(w) {
			return true
		}
	}
	return false
}

// gates are the gates of the pool and of its lanes. The slice is not changed.
func (p *Pool) gates() []*gate {
	if gates := p.ready.gates.Load(); gates != nil {
		return *gates
	}
	return []*gate{&p.gate}
}

// waiting is how many tasks wait in queues and for their time; those in the hands
// of workers are not counted. Who reads 0 in a pool that takes no more tasks and
// has no workers can rely on it: a delayed task is counted until it stands in its
// queue, and is looked for first.
func (p *Pool) waiting() int {
	n := int(p.delayed.n.Load())
	for _, g := range p.gates() {
		n += g.count()
	}
	return n
}
