package run

import (
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// BusyPause is how soon Work looks again at an executor that has no place and
// runs none of its jobs, because others keep it busy. After BusyPatience one job
// is handed over all the same: to wait in the executor's own queue, or to hear
// that it has been closed.
const (
	BusyPause    = 5 * time.Millisecond
	BusyPatience = 500 * time.Millisecond
)

// RoomPause is how soon Work looks again at an executor that has no place, runs some
// of its jobs, and does not tell when others make room (bullpen.RoomNotifier). One that
// does is asked to when nothing has happened for BusyPause: while jobs of this call
// end all the time, their ends tell enough.
const RoomPause = 50 * time.Millisecond

// awaitPlace waits for a place in the executor, which others may fill too. It returns
// when to look again although nothing happened, 0 for never.
func (r *runner) awaitPlace(held, places int) time.Duration {
	switch c := r.config.Concurrency; {
	case held == 0 && r.looking == 0:
		return r.press()
	case places > 0 || c > 0 && held >= c:
		return 0 // for jobs of its own, whose ends it hears of
	case !r.quiet:
		return BusyPause
	case r.hears():
		return 0
	}
	return RoomPause
}

// hears lets the executor tell when it has room; false when it cannot.
func (r *runner) hears() bool {
	if r.told == nil {
		r.told = bullpen.Room(r.executor)
	}
	return r.told != nil
}

// press waits for a place in an executor that runs none of this runner's jobs,
// and in the end hands over one without. It returns when to look again.
func (r *runner) press() time.Duration {
	now := time.Now()
	if r.noPlace.IsZero() {
		r.noPlace = now
	}
	if rest := BusyPatience - now.Sub(r.noPlace); rest > 0 {
		if r.quiet && r.hears() {
			return rest
		}
		return min(BusyPause, rest)
	}
	if len(r.ready) == 0 && !r.pressKept() {
		if l := &r.levels[r.target()]; l.asked+l.standing == 0 {
			l.standing = 1
			l.taker.Request(1, true)
		}
		return BusyPatience
	}
	r.noPlace = time.Time{}
	if len(r.ready) == 0 {
		return BusyPatience // it is read first
	}
	first := r.ready[0]
	r.ready = append(r.ready[:0], r.ready[1:]...)
	r.queue.Spawn(first.handOver) // ends when the executor takes the job or its context ends
	return BusyPatience
}
