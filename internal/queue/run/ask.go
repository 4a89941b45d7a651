package run

import (
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// weights are how the priorities share the places while each has waiting jobs.
var weights = [job.Priorities]int{job.High: 8, job.Normal: 4, job.Low: 1}

// order is the order of strict priorities.
var order = [job.Priorities]job.Priority{job.High, job.Normal, job.Low}

// smooth picks levels by smooth weighted round robin.
type smooth struct{ credit [job.Priorities]int }

// next returns the level whose turn it is, among those for which wants returns true.
func (s *smooth) next(wants func(job.Priority) bool) (job.Priority, bool) {
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
	return job.Priority(best), true
}

// mostRecording bounds how many jobs may wait for their outcome to reach the disk. Beyond
// it no jobs are requested.
const mostRecording = 8192

// ask hands over the jobs that are ready, and requests as many as the executor can start
// beyond that. It returns when to run again even if nothing happens, 0 for never.
func (r *runner) ask() time.Duration {
	places := r.handOver()
	lately := r.takeTurns(places)
	places = r.start(places) // the jobs that takeTurns made ready
	held := int(r.held.Load())
	free := places - len(r.ready) - r.looking
	if int(r.all.Load())-held >= mostRecording {
		free = 0
	}
	least := max(1, (held+free)/4)
	r.low.Store(int64(held - least))
	if lately {
		r.watchLevels()
	}
	if free <= 0 || lately {
		r.cramped = time.Time{} // places kept here are not what other jobs lack
	}
	if free <= 0 {
		return r.awaitPlace(held, places)
	}
	r.fullSince = time.Time{}
	if lately {
		if free -= r.promised(); free > 0 && r.busy() > 0 {
			r.share(free)
		}
		return groupedLately
	}
	active := r.target()
	blind := r.keepEyes(active, free)
	for i := range r.levels {
		free -= r.levels[i].outstanding(job.Priority(i) == active)
	}
	again := r.makeRoom(active, free, blind)
	switch {
	case free <= 0:
	case r.busy() > 1:
		r.share(free)
	default:
		r.stand(active, free, least)
	}
	return again
}

// keepEyes makes one standing request at each level that is not active and has no known
// jobs, so that its next job is delivered. Only these requests may exceed the free
// places. It reports whether a level has no request because its place is kept for
// another.
func (r *runner) keepEyes(active job.Priority, free int) (blind bool) {
	room := free + job.Priorities - 1
	for i := range r.levels {
		room -= r.levels[i].asked + r.levels[i].standing
	}
	for i := range r.levels {
		l := &r.levels[i]
		if job.Priority(i) == active || l.standing+l.asked > 0 || l.waiting > 0 {
			continue
		}
		if room <= 0 {
			blind = true
			continue
		}
		room--
		l.standing = 1
		l.taker.Request(1, true)
	}
	return blind
}

// target returns the level that gets a standing request for all free places: the one with
// waiting jobs, else the one that delivered last.
func (r *runner) target() job.Priority {
	for i := range r.levels {
		if r.levels[i].known() > 0 {
			return job.Priority(i)
		}
	}
	for i := range r.levels {
		if r.levels[i].active {
			return job.Priority(i)
		}
	}
	return job.Normal
}

// outstanding returns how many places are kept for the level's requests. One standing
// request of a level that is not active keeps none.
func (l *level) outstanding(active bool) int {
	if !active && l.standing > 0 {
		return l.asked + l.standing - 1
	}
	return l.asked + l.standing
}

// known returns how many jobs the level had at its last delivery beyond those requested.
func (l *level) known() int { return l.waiting - l.asked - l.standing }

// known returns how many jobs all levels have beyond those requested.
func (r *runner) known() int {
	n := 0
	for i := range r.levels {
		n += max(r.levels[i].known(), 0)
	}
	return n
}

// Taking back requests blocks their places for a moment. It is done only when other
// levels have starved for starvedPatience, or when more places have been kept than the
// executor has for shrunkPatience.
const (
	starvedPatience = 10 * time.Millisecond
	shrunkPatience  = time.Second
)

// makeRoom takes back places that are kept in vain. It returns when to run again even if
// nothing happens, 0 for never.
func (r *runner) makeRoom(active job.Priority, free int, blind bool) time.Duration {
	if known := r.known(); blind || known > 0 && known > free {
		r.recall(active, false)
	}
	patience := shrunkPatience
	switch {
	case blind || free <= 0 && r.hungry(active):
		patience = starvedPatience
	case free >= 0:
		r.cramped = time.Time{}
		return 0
	}
	now := time.Now()
	if r.cramped.IsZero() {
		r.cramped = now
	}
	if rest := patience - now.Sub(r.cramped); rest > 0 {
		return rest
	}
	r.recall(active, true)
	return 0
}

// hungry reports whether a level has waiting jobs but no request. If it gets no place,
// the places may be kept for jobs that another node took, or for a level that was active
// before the executor became smaller.
func (r *runner) hungry(active job.Priority) bool {
	for i := range r.levels {
		if l := &r.levels[i]; l.asked+l.standing == 0 && (l.known() > 0 || job.Priority(i) == active) {
			return true
		}
	}
	return false
}

// recall takes back the places kept for levels without known jobs, or for all levels.
func (r *runner) recall(active job.Priority, all bool) {
	for i := range r.levels {
		l := &r.levels[i]
		kept := l.outstanding(job.Priority(i) == active) - l.asked - l.recalled
		if kept > 0 && (all || l.known() <= 0) {
			l.recall()
		}
	}
}

// recall takes back all standing requests of the level.
func (l *level) recall() {
	l.recalled = l.standing
	l.taker.Recall()
}

// stood accounts for n standing requests that ended. Recalled requests look like those made
// since, so the first to end count as recalled: recalling once too often does no harm, once
// too little would keep places forever.
func (l *level) stood(n int) {
	l.standing = max(l.standing-n, 0)
	l.recalled = max(l.recalled-n, 0)
}

// busy returns how many levels have jobs waiting.
func (r *runner) busy() int {
	n := 0
	for i := range r.levels {
		if r.levels[i].known() > 0 {
			n++
		}
	}
	return n
}

// share requests free jobs from the levels in turn. The requests don't wait, so that no
// place is kept for a level whose jobs another node took.
func (r *runner) share(free int) {
	var wanted [job.Priorities]int
	wants := func(p job.Priority) bool {
		l := &r.levels[p]
		return l.known() > wanted[p]
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

func (r *runner) pick(wants func(job.Priority) bool) (job.Priority, bool) {
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

// stand keeps a standing request for all free places at the level that delivered last.
// Small additions are collected first.
func (r *runner) stand(p job.Priority, free, least int) {
	l := &r.levels[p]
	if free < least && l.standing > 0 {
		return
	}
	l.standing += free
	// The next delivery says again whether there are more; without one, another node took
	// them.
	l.waiting = min(l.waiting, l.asked+l.standing)
	l.taker.Request(free, true)
}

// The pauses after an executor did not start jobs.
const (
	firstHold = 10 * time.Millisecond
	lastHold  = 30 * time.Second
	FullHold  = 15 * time.Second // for one that is only full
)

// heldOff records that the executor did not start a job, for the goroutine of Work.
func (r *runner) heldOff(err error) {
	if errors.Is(err, bullpen.ErrUnknownTask) || errors.Is(err, bullpen.ErrRefused) || r.jobs.Err() != nil {
		return
	}
	r.mu.Lock()
	r.holdOff = err
	r.mu.Unlock()
	r.Signal()
}

// standBack takes back all standing requests. Once none is left, the ready jobs are given
// back too, with a delay so that they do not return at once.
func (r *runner) standBack() {
	standing := 0
	for i := range r.levels {
		l := &r.levels[i]
		if standing += l.standing; l.standing > l.recalled {
			l.recall()
		}
	}
	if standing == 0 {
		r.returnReady()
	}
}

// hold stops this call of Work from taking jobs for a moment, so that a job which cannot
// start here is not delivered over and over. A closed executor ends the work.
func (r *runner) hold(reason error) error {
	if errors.Is(reason, bullpen.ErrClosed) {
		return fmt.Errorf("queue: the executor accepts no more tasks: %w", reason)
	}
	if r.works.Swap(false) {
		r.pause = 0
	}
	longest := lastHold
	if errors.Is(reason, bullpen.ErrOverloaded) {
		longest = FullHold
	}
	r.pause = min(max(2*r.pause, firstHold), longest)
	r.pausedTo = time.Now().Add(r.pause)
	r.queue.Journal.Emit(job.Event{Kind: job.HeldOff, Queue: r.config.Queue, Text: fmt.Sprintf("for %v: %v", r.pause, reason)})
	return nil
}
