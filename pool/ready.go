package pool

import (
	"sync"
	"sync/atomic"
)

// readyLanes is the list of lanes with a task that may start now. A worker takes one task
// of the first lane, which moves to the end if it has more. So no lane waits for more than
// one task of each other lane.
type readyLanes struct {
	n          atomic.Int32                 // number of lanes; written with mu held
	admissions atomic.Pointer[[]*admission] // of the pool and of all lanes; replaced with Pool.mu held

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

// take starts a task of the first lane in the worker, which has none.
func (r *readyLanes) take(w *worker) bool {
	for l := r.pop(); l != nil; l = r.pop() {
		if l.take(w) {
			return true
		}
	}
	return false
}

// admissions returns those of the pool and of its lanes. The slice is immutable.
func (p *Pool) admissions() []*admission {
	if admissions := p.ready.admissions.Load(); admissions != nil {
		return *admissions
	}
	return []*admission{&p.admission}
}

// waiting returns how many tasks wait in queues or for their time, not counting those taken
// by workers. A result of 0 is reliable in a pool that accepts no more tasks and has no
// workers: a delayed task is counted until it is queued, and delayed tasks are read first.
func (p *Pool) waiting() int {
	n := int(p.delayed.n.Load())
	for _, g := range p.admissions() {
		n += g.count()
	}
	return n
}
