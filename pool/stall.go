package pool

import (
	"runtime"
	"strings"
	"time"
)

// A task that submits to its own pool and waits is recognized by its context. A task that
// waits with another context, or without one, is detected when the pool stalls: all workers
// are busy, nothing has ended for a while, and tasks wait. Then the keeper pokes the
// callers that wait for tasks that have not started, and each caller inspects its own
// stack. A caller that is itself a task of a pool lets this pool run one worker more while
// it waits.

// Callers are poked after the pool has stalled for stallFirst. The interval then doubles up
// to stallMost, because the tasks may just be long.
const (
	stallFirst = 20 * int64(time.Millisecond)
	stallMost  = int64(time.Second)
)

// stall is the keeper's record of a stalled pool.
type stall struct {
	ended    uint64 // tasks that had ended at the last check
	since    int64  // when that changed, or when callers were last poked
	patience int64
}

// full reports whether no worker is free and none may be started.
func (p *Pool) full() bool {
	h := p.counts()
	return h.parked() == 0 && h.searching() == 0 && h.size() >= p.most()
}

// look pokes callers if the pool has stalled, and returns when to check again; 0 means
// never.
func (s *stall) look(p *Pool, now int64) (due int64) {
	if !p.full() || !p.work() {
		s.patience = 0
		return 0
	}
	if ended := p.counters.ended(); ended != s.ended || s.patience == 0 {
		*s = stall{ended: ended, since: now, patience: stallFirst}
	}
	if now-s.since >= s.patience {
		p.poke()
		s.since, s.patience = now, min(2*s.patience, stallMost)
	}
	return s.since + s.patience
}

// ended returns the number of tasks that ran and have ended.
func (t *counters) ended() (n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kinds {
		for i := range k.stripes {
			for o := range k.stripes[i].outcomes {
				n += k.stripes[i].outcomes[o].Load()
			}
		}
	}
	return n
}

// poke wakes the callers that wait for tasks that have not started.
func (p *Pool) poke() {
	for _, q := range p.shards {
		q.out.mu.Lock()
		q.in.mu.Lock()
		for pr := range q.in.levels {
			q.in.levels[pr].poke()
			q.out.levels[pr].poke()
		}
		q.in.mu.Unlock()
		q.out.mu.Unlock()
	}
}

func (d *deque) poke() {
	for c := d.first; c != nil; c = c.next {
		for _, it := range c.items[c.head:c.tail] {
			if h, ok := it.(interface{ poke() }); ok {
				h.poke()
			}
		}
	}
}

func (c *taskContext) poke() { c.head.poke() }

// poke wakes the caller that waits for the token. The task is in a queue, so the object
// cannot have been reused.
func (h *head) poke() {
	if word := h.word.Load(); stateOf(word) == TaskQueued && word&hasWaiter != 0 {
		h.wake()
	}
}

// makeRoom lets a full pool run one worker more until back is called, if the calling
// goroutine is a worker's. So a task that waits unnoticed cannot block the pool.
func (p *Pool) makeRoom() (back func()) {
	if !p.full() || !onWorker() {
		return func() {}
	}
	p.nesting.Add(1)
	p.call()
	return func() { p.nesting.Add(-1) }
}

// onWorker reports whether this goroutine is a worker of any pool. It takes some
// microseconds.
func onWorker() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		if n == 0 {
			return false
		}
		frames := runtime.CallersFrames(pcs[:n])
		for more := true; more; {
			var f runtime.Frame
			if f, more = frames.Next(); strings.HasSuffix(f.Function, "/pool.(*worker).shift") {
				return true
			}
		}
	}
}
