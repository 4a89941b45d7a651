package process

import "time"

// snapshot is what a decision about the size of a pool is made from. The
// decisions are pure functions of it, so they are tested without processes and
// clocks.
type snapshot struct {
	queued     int           // tasks that wait
	oldest     time.Duration // how long the oldest of them has waited
	meanRun    time.Duration // measured run time, 0 while unknown
	meanStart  time.Duration // measured time from start to ready, 0 while unknown
	size       int           // processes that live, whatever their state
	starting   int
	idle       int
	busy       int
	leaving    int
	min, max   int
	spare      int
	startLimit int // most starts under way
}

// growWait is the least time a task waits before it is worth a new worker.
const growWait = time.Millisecond

// threshold is how long the oldest task must have waited before the pool
// grows. Below the mean run time a worker is about to become free; and a task
// that has waited as long as a start takes would have done better to start one.
func (s snapshot) threshold() time.Duration {
	return max(growWait, min(s.meanRun, s.meanStart))
}

// grow says how many workers to start now.
func (s snapshot) grow() int {
	want := s.min - (s.size - s.leaving)
	if s.queued > 0 && (s.size == s.leaving || s.oldest > s.threshold()) {
		want = max(want, s.queued-s.starting)
		if s.size == s.leaving {
			want = max(min(want, 1), s.min) // the first one shows what a start costs
		}
	}
	want = max(want, s.spare-s.idle-s.starting)
	return max(0, min(want, s.max-s.size, s.startLimit-s.starting))
}

// floor is how many workers stay although they idle.
func (s snapshot) floor() int {
	return min(s.max, max(s.min, s.busy+s.spare))
}

// shrink says whether a worker that has idled long enough may leave.
func (s snapshot) shrink() bool {
	return s.queued == 0 && s.size-s.leaving > s.floor()
}

// window is how many tasks a worker may have in hand: as many short ones as fill
// about 200 µs, many times what the two switches of processes cost that they
// share; and a second one as long as tasks are short enough that the switches
// still show.
func window(meanRun time.Duration) int {
	switch {
	case meanRun <= 0:
		return 1
	case meanRun > 100*time.Microsecond && meanRun < prefetchBelow:
		return 2
	}
	return int(min(max(200*time.Microsecond/meanRun, 1), MaxWindow))
}

// prefetchBelow is the mean run time up to which a worker is given its next
// task while it runs one.
const prefetchBelow = 2 * time.Millisecond

// backoff is how long to wait before the next start, after so many failed ones
// in a row.
func backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(10*time.Millisecond<<min(failures-1, 10), 5*time.Second)
}

// breakAfter failed starts in a row, with no worker alive, callers are told
// instead of left waiting.
const breakAfter = 3

// mean is a running mean in nanoseconds that forgets: each value counts a
// sixteenth.
type mean int64

func (m *mean) add(v int64) {
	if *m == 0 {
		*m = mean(max(v, 1))
		return
	}
	*m += (mean(v) - *m) / 16
	*m = max(*m, 1)
}
