package queue

import (
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// weights are how the priorities share the places while all of them wait.
var weights = [priorities]int{High: 8, Normal: 4, Low: 1}

// order is how strict priorities go.
var order = [priorities]Priority{High, Normal, Low}

// smooth picks levels by smooth weighted round robin.
type smooth struct{ credit [priorities]int }

// next returns the level whose turn it is among those that wants says.
func (s *smooth) next(wants func(Priority) bool) (Priority, bool) {
	best, total := -1, 0
	for _, p := range order {
		if !wants(p) {
			continue
		}
		s.credit[p] += weights[p]
		total += weights[p]
		if best < 0 || s.credit[p] > s.credit[best] {
			best = int(p)
		}
	}
	if best < 0 {
		return 0, false
	}
	s.credit[best] -= total
	return Priority(best), true
}

// mostRecording bounds how many jobs may wait for their outcome to reach the
// disk; beyond it no more are taken.
const mostRecording = 8192

// busyPause is how soon Work looks again at an executor that others keep busy.
const busyPause = 5 * time.Millisecond

// ask requests as many jobs as the executor can start. It returns when to look
// again although nothing happened, 0 for never.
func (r *runner) ask() time.Duration {
	held := int(r.held.Load())
	free := r.executor.Capacity()
	if c := r.config.Concurrency; c > 0 {
		free = min(free, c-held)
	}
	if int(r.all.Load())-held >= mostRecording {
		free = 0
	}
	r.low.Store(int64(held - max(1, (held+free)/4)))
	active := Normal
	for i := range r.levels {
		if r.levels[i].active {
			active = Priority(i)
		}
		free -= r.levels[i].asked
	}
	if free <= 0 {
		if held == 0 {
			return busyPause
		}
		return 0
	}
	if r.busy() > 1 {
		r.share(free)
	} else {
		r.stand(active, free, max(1, (held+free)/4))
	}
	for i := range r.levels {
		if l := &r.levels[i]; l.standing == 0 && l.asked == 0 && Priority(i) != active {
			l.standing = 1
			l.taker.Request(1, true)
		}
	}
	return 0
}

// busy returns how many levels have jobs waiting.
func (r *runner) busy() int {
	n := 0
	for i := range r.levels {
		if r.levels[i].waiting > r.levels[i].asked {
			n++
		}
	}
	return n
}

// share requests free jobs from the levels in turn. The requests do not wait, so
// that no place is kept for a level whose jobs somebody else took.
func (r *runner) share(free int) {
	var wanted [priorities]int
	wants := func(p Priority) bool {
		l := &r.levels[p]
		return l.waiting > l.asked+wanted[p]
	}
	for range free {
		p, ok := r.pick(wants)
		if !ok {
			break
		}
		wanted[p]++
	}
	for i, n := range wanted {
		if n > 0 {
			r.levels[i].asked += n
			r.levels[i].taker.Request(n, false)
		}
	}
}

func (r *runner) pick(wants func(Priority) bool) (Priority, bool) {
	if !r.config.Strict {
		return r.turn.next(wants)
	}
	for _, p := range order {
		if wants(p) {
			return p, true
		}
	}
	return 0, false
}

// stand keeps a request open at the level that delivered last, for all free
// places. Small additions are saved up.
func (r *runner) stand(p Priority, free, least int) {
	l := &r.levels[p]
	n := free - l.standing
	if n <= 0 || n < least && l.standing > 0 {
		return
	}
	l.standing += n
	l.taker.Request(n, true)
}

// The pauses after an executor could not start jobs.
const (
	firstHold = 10 * time.Millisecond
	lastHold  = 30 * time.Second
)

// heldOff notes that the executor did not start a job, for the goroutine of Work.
func (r *runner) heldOff(err error) {
	if errors.Is(err, bullpen.ErrUnknownTask) || errors.Is(err, bullpen.ErrRefused) || r.jobs.Err() != nil {
		return
	}
	if !errors.Is(err, bullpen.ErrClosed) && !errors.Is(err, bullpen.ErrStart) && !errors.Is(err, bullpen.ErrOverloaded) {
		return
	}
	r.mu.Lock()
	r.holdOff = err
	r.mu.Unlock()
	r.signal()
}

// hold makes this call of Work take no jobs for a moment, so that a job which
// cannot start here does not go round and round. An executor that is closed ends
// the work.
func (r *runner) hold(reason error) error {
	if errors.Is(reason, bullpen.ErrClosed) {
		return fmt.Errorf("queue: the executor takes no more tasks: %w", reason)
	}
	now := time.Now()
	if now.Sub(r.pausedTo) > lastHold {
		r.pause = 0
	}
	r.pause = min(max(2*r.pause, firstHold), lastHold)
	r.pausedTo = now.Add(r.pause)
	r.queue.journal.emit(Event{Kind: HeldOff, Queue: r.config.Queue, Text: fmt.Sprintf("for %v: %v", r.pause, reason)})
	return nil
}
