package process

import (
	"runtime"
	"slices"
	"time"
)

// snapshot returns the state of the pool that decisions about its size need. Pool.mu is
// held.
func (p *Pool) snapshot(now int64) snapshot {
	s := snapshot{
		queued: p.callsWaiting(), meanRun: time.Duration(p.meanRun), meanStart: time.Duration(p.meanStart),
		size: len(p.workers), starting: p.starting, idle: len(p.idle), busy: p.busy(), leaving: p.leaving,
		min: max(p.min, p.warm), max: p.max, spare: p.config.Spare, startLimit: max(4, 2*runtime.GOMAXPROCS(0)),
	}
	if p.queue.first != nil {
		s.oldest = time.Duration(max(0, now-p.waitsSince()))
	}
	replaced := 0
	for _, w := range p.workers {
		if w.spent && w.state.State() < WorkerLeaving && (w.cause == ByTasks || w.successor != nil) {
			replaced++
		}
		if w.state.State() == WorkerGone {
			s.size--
		}
	}
	s.size -= min(replaced, 1) // a worker and its successor count as one; one is replaced at a time
	return s
}

// tendSize starts workers. Pool.mu is held.
func (p *Pool) tendSize(now int64) {
	if p.state.State() > Stopping {
		return
	}
	s := p.snapshot(now)
	if p.state.State() != Open {
		s.min, s.spare = 0, 0
	}
	p.grow(s, now)
	if p.queue.n > 0 && s.size < s.max && !p.share.waits() {
		p.wakeBy(max(now+int64(growWait)/4, p.waitsSince()+int64(s.threshold())))
	}
}

// grow starts the workers that s asks for. Pool.mu is held.
func (p *Pool) grow(s snapshot, now int64) {
	n := s.grow()
	if n == 0 {
		return
	}
	if now < p.nextStart {
		p.wakeBy(p.nextStart)
		return
	}
	if p.failures > 0 {
		n = 1 // try a single start after a failure
		if p.starting > 0 {
			return
		}
	}
	s.spare = 0
	forTasks := s.grow()
	for i := range n {
		why := forSpare
		if i < forTasks {
			why = forTask
		}
		if !p.begin(why) {
			return
		}
	}
}

// tendIdle lets workers leave that have been idle long enough, the longest idle first.
// Pool.mu is held.
func (p *Pool) tendIdle(now int64) {
	if p.state.State() != Open {
		return
	}
	for s := p.snapshot(now); len(p.idle) > 0 && s.size-s.leaving > p.max; s = p.snapshot(now) {
		p.retire(p.idle[0], ByResize, now)
	}
	if p.config.Idle < 0 {
		return
	}
	for _, w := range slices.Clone(p.idle) {
		due := w.idleSince + int64(p.config.Idle)
		if now < due {
			p.wakeBy(due)
			return // the others became idle later
		}
		if p.snapshot(now).shrink() {
			p.retire(w, ByIdle, now)
			continue
		}
		if again := w.keptAt + int64(p.config.Idle); now < again {
			p.wakeBy(again)
			continue
		}
		w.keptAt = now
		p.wakeBy(now + int64(p.config.Idle))
		w.emit(Event{Kind: KeptAlive})
	}
}
