package run

import (
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// BusyPause is how soon Work checks again an executor that has no place and runs none of
// its jobs, because it is busy with other tasks. After BusyPatience one job is handed
// over all the same: it waits in the executor's own queue, or learns that the executor is
// closed.
const (
	BusyPause    = 5 * time.Millisecond
	BusyPatience = 500 * time.Millisecond
)

// RoomPause is how soon Work checks again an executor that has no place, runs some of its
// jobs, and is no bullpen.RoomNotifier. A RoomNotifier is asked for a notification when
// nothing has happened for BusyPause: while jobs of this call keep ending, their ends
// suffice.
const RoomPause = 50 * time.Millisecond

// awaitPlace waits for a place in the executor, which other callers may fill too. It
// returns when to run again even if nothing happens, 0 for never.
func (r *runner) awaitPlace(held, places int) time.Duration {
	switch c := r.config.Concurrency; {
	case held == 0 && r.looking == 0:
		return r.press()
	case places > 0 || c > 0 && held >= c:
		return 0 // the ends of its own jobs wake it
	case !r.quiet:
		return BusyPause
	case r.requestSignal():
		return 0
	}
	return RoomPause
}

// requestSignal asks the executor for a notification when it has room, and reports whether
// the executor supports that.
func (r *runner) requestSignal() bool {
	if r.roomSignal == nil {
		r.roomSignal = bullpen.Room(r.executor)
	}
	return r.roomSignal != nil
}

// press waits for a place in an executor that runs none of this runner's jobs, and in the
// end hands over one job without a place. It returns when to run again.
func (r *runner) press() time.Duration {
	now := time.Now()
	if r.fullSince.IsZero() {
		r.fullSince = now
	}
	if rest := BusyPatience - now.Sub(r.fullSince); rest > 0 {
		if r.quiet && r.requestSignal() {
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
	r.fullSince = time.Time{}
	if len(r.ready) == 0 {
		return BusyPatience // which awaits the record that is being read
	}
	first := r.ready[0]
	r.ready = append(r.ready[:0], r.ready[1:]...)
	r.queue.Spawn(first.handOver) // ends when the executor takes the job or its context ends
	return BusyPatience
}
