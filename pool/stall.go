package pool

import (
	"runtime"
	"strings"
	"time"
)

// A task that hands work to its own pool and waits for it is known by its context.
// One that waits with another context, or has none, is found out when the pool
// stands still: all workers are busy, nothing has ended for a while, and tasks wait.
// Then the keeper pokes the callers who wait for tasks that have not started, and
// each looks at its own stack. One that is a task of a pool lets this pool have one
// worker more while it waits.

// Nothing has ended for so long before callers are poked: first, and at most. It
// doubles, as it may just be long tasks.
const (
	stallFirst = 20 * int64(time.Millisecond)
	stallMost  = int64(time.Second)
)

// stall is what the keeper knows of a pool that stands still.
type stall struct {
	ended    uint64 // tasks, at the last look
	since    int64  // when that changed, or when callers were poked
	patience int64
}

// full reports whether no worker is free and none may be started.
func (p *Pool) full() bool {
	h := p.handsNow()
	return h.parked() == 0 && h.searching() == 0 && h.size() >= p.most()
}

// look pokes callers when the pool has stood still, and tells when to look again; 0
// is never.
func (s *stall) look(p *Pool, now int64) (due int64) {
	if !p.full() || !p.work() {
		s.patience = 0
		return 0
	}
	if ended := p.tallies.ended(); ended != s.ended || s.patience == 0 {
		*s = stall{ended: ended, since: now, patience: stallFirst}
	}
	if now-s.since >= s.patience {
		p.poke()
		s.since, s.patience = now, min(2*s.patience, stallMost)
	}
	return s.since + s.patience
}

// ended counts the tasks that ran and have ended.
func (t *tallies) ended() (n uint64) {
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

// poke wakes those who wait for tasks that have not started.
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

// poke wakes the one who waits for the token. The task lies in a queue, so that the
// object is no other's.
func (h *head) poke() {
	if word := h.word.Load(); stateOf(word) == TaskQueued && word&hasWaiter != 0 {
		h.wake()
	}
}

// makeRoom lets a full pool have one worker more until it is called back, where the
// caller is a task that waits without the pool having known.
func (p *Pool) makeRoom() (back func()) {
	if !p.full() || !onWorker() {
		return func() {}
	}
	p.nesting.Add(1)
	p.call()
	return func() { p.nesting.Add(-1) }
}

// onWorker reports whether this goroutine is a worker of some pool. It costs some
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
