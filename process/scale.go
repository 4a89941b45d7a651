package process

import "time"

// snapshot is the input of decisions about the size of a pool. The decisions are pure
// functions of it, so tests need no processes or clocks.
type snapshot struct {
	queued     int           // waiting tasks
	oldest     time.Duration // how long the oldest of them has waited
	meanRun    time.Duration // measured run time, 0 while unknown
	meanStart  time.Duration // measured time from start to ready, 0 while unknown
	size       int           // live workers in any state
	starting   int
	idle       int
	busy       int
	leaving    int
	min, max   int
	spare      int
	startLimit int // most concurrent starts
}

// growWait is the minimum wait of a task that justifies a new worker.
const growWait = time.Millisecond

// threshold is how long the oldest task must have waited before the pool grows. Before
// the mean run time has passed, a worker is likely to become free. A task that has
// waited for as long as a start takes would have done better to start a worker.
func (s snapshot) threshold() time.Duration {
	return max(growWait, min(s.meanRun, s.meanStart))
}

// grow returns how many workers to start now.
func (s snapshot) grow() int {
	want := s.min - (s.size - s.leaving)
	if s.queued > 0 && (s.size == s.leaving || s.oldest > s.threshold()) {
		want = max(want, s.queued-s.starting)
		if s.size == s.leaving {
			want = max(min(want, 1), s.min) // start one to measure how long a start takes
		}
	}
	want = max(want, s.spare-s.idle-s.starting)
	return max(0, min(want, s.max-s.size, s.startLimit-s.starting))
}

// floor returns how many workers to keep even if they are idle.
func (s snapshot) floor() int {
	return min(s.max, max(s.min, s.busy+s.spare))
}

// shrink reports whether a worker that has been idle long enough may leave.
func (s snapshot) shrink() bool {
	return s.queued == 0 && s.size-s.leaving > s.floor()
}

// window returns how many tasks may be assigned to a worker. Short tasks are sent in
// numbers that fill about 200 µs, so that they share the cost of two context switches,
// which is far smaller. A second task is sent ahead while tasks are short enough for
// that cost to matter.
func window(meanRun time.Duration) int {
	switch {
	case meanRun <= 0:
		return 1
	case meanRun > 100*time.Microsecond && meanRun < prefetchBelow:
		return 2
	}
	return int(min(max(200*time.Microsecond/meanRun, 1), MaxWindow))
}

// prefetchBelow is the mean run time below which a worker gets its next task while it
// runs one.
const prefetchBelow = 2 * time.Millisecond

// backoff returns the delay before the next start after this many failed starts in a
// row.
func backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(10*time.Millisecond<<min(failures-1, 10), 5*time.Second)
}

// breakAfter is the number of failed starts in a row after which, with no worker alive,
// tasks fail instead of waiting.
const breakAfter = 3

// mean is a moving average in nanoseconds: each new value has a weight of 1/16.
type mean int64

func (m *mean) add(v int64) {
	if *m == 0 {
		*m = mean(max(v, 1))
		return
	}
	*m += (mean(v) - *m) / 16
	*m = max(*m, 1)
}
