package process

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
)

// vary returns n varied by up to the configured jitter, and at least 1.
func (p *Pool) vary(n int64) int64 {
	j := p.config.Recycle.Jitter
	return max(1, n+int64(float64(n)*j*(2*rand.Float64()-1)))
}

// flag marks w for replacement: a successor is started, and w leaves when it is ready.
// Pool.mu is held.
func (p *Pool) flag(w *worker, cause Cause) {
	if w.spent || w.state.State() == WorkerLeaving || w.state.State() == WorkerGone {
		return
	}
	w.spent, w.cause = true, cause
	p.wakeBy(0)
}

// tendAge finds workers that are due for replacement, and replaces them one at a time.
// Pool.mu is held.
func (p *Pool) tendAge(now int64) {
	if p.state.State() != Open {
		return
	}
	var next *worker
	replacing := false
	for _, w := range p.workers {
		if w.state.State() == WorkerLeaving || w.state.State() == WorkerGone || w.killed {
			continue
		}
		switch {
		case w.age < p.age:
			p.flag(w, ByReload)
		case w.expires != 0 && now >= w.expires:
			p.flag(w, ByAge)
		case w.expires != 0:
			p.wakeBy(w.expires)
		}
		if !w.spent || w.cause == ByTasks || w.state.State() == WorkerStarting {
			continue
		}
		if s := w.successor; s != nil {
			replacing = p.succeed(w, s, now) || replacing
		} else if next == nil {
			next = w
		}
	}
	p.tendMemory(now)
	if next == nil || replacing || now < p.nextStart {
		if next != nil {
			p.wakeBy(max(p.nextStart, now+int64(growWait)))
		}
		return
	}
	p.launchSuccessor(next, now)
}

// succeed lets w leave if its successor s is ready. It reports whether the replacement
// is still under way. Pool.mu is held.
func (p *Pool) succeed(w, s *worker, now int64) bool {
	switch s.state.State() {
	case WorkerStarting:
		return true
	case WorkerGone:
		w.successor = nil // it failed: retry after the backoff
		p.wakeBy(max(p.nextStart, now+int64(growWait)))
		return true
	default:
		p.retire(w, w.cause, now)
		return false
	}
}

// memoryEvery is the interval at which the resident size of a worker is measured.
const memoryEvery = 500 * time.Millisecond

// tendMemory measures the workers, and flags the largest idle one above the soft bound.
// Pool.mu is held.
func (p *Pool) tendMemory(now int64) {
	soft := p.config.Recycle.Memory > 0
	if !soft && !p.share.weighs() {
		return
	}
	var largest *worker
	for _, w := range p.workers {
		if w.pid == 0 || w.exited || w.spent || w.state.State() > WorkerBusy {
			continue
		}
		if now-w.lookedAt >= int64(memoryEvery) {
			w.lookedAt = now
			if n, err := confine.RSS(w.pid); err == nil {
				w.resident = n
			}
		} else if w.idleSince > w.lookedAt {
			p.wakeBy(w.lookedAt + int64(memoryEvery)) // it has worked since
		}
		if soft && w.state.State() == WorkerIdle && w.resident > w.heavy && (largest == nil || w.resident > largest.resident) {
			largest = w
		}
	}
	p.weigh()
	if p.inHand > 0 || largest != nil {
		p.wakeBy(now + int64(memoryEvery))
	}
	if largest != nil {
		p.flag(largest, ByMemory)
	}
}

// rested handles a worker that has just become idle. If it has served its number of
// tasks, it leaves. Pool.mu is held.
func (p *Pool) rested(w *worker, now int64) {
	if w.tasks > 0 && w.served >= w.tasks {
		p.retire(w, ByTasks, now)
		return
	}
	p.restedFor(w, now)
	if p.config.Recycle.Memory > 0 || p.share.weighs() {
		p.wakeBy(max(now, w.lookedAt+int64(memoryEvery)))
	}
	p.wakeBy(now + int64(max(p.config.Idle, 0)))
	if p.config.Idle < 0 && p.config.Ping > 0 {
		p.wakeBy(now + int64(p.config.Ping))
	}
}

// Reload replaces all workers, one at a time. Each new worker is ready before an old
// one leaves, so the pool temporarily has one process more than Max. Old workers finish
// the tasks assigned to them. Reload returns when the last old worker has ended. If ctx
// ends first, it returns the cause of ctx, and the replacement continues. If the new
// workers do not start, it returns the [*StartError]; the old workers keep working, and
// the pool keeps trying.
func (p *Pool) Reload(ctx context.Context) error {
	p.mu.Lock()
	p.age++
	age, failed := p.age, p.counters.failedStarts
	p.nextStart = 0 // what failed before may be fixed
	p.wakeBy(0)
	p.mu.Unlock()
	for {
		p.mu.Lock()
		old := 0
		for _, w := range p.workers {
			if w.age < age {
				old++
			}
		}
		var err error
		switch {
		case p.state.State() != Open:
			err = bullpen.ErrClosed
		case p.failures >= breakAfter && p.counters.failedStarts > failed:
			err = p.startErr
		}
		if old == 0 || err != nil {
			p.mu.Unlock()
			return err
		}
		c := make(chan struct{})
		p.ready[c] = struct{}{}
		p.mu.Unlock()
		select {
		case <-c:
		case <-ctx.Done():
			p.mu.Lock()
			delete(p.ready, c)
			p.mu.Unlock()
			return context.Cause(ctx)
		}
	}
}
