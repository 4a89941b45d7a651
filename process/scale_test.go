package process

import (
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestGrow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		s    snapshot
		want int
	}{
		{"nothing to do", snapshot{max: 5}, 0},
		{"min is started at once", snapshot{min: 3, max: 5}, 3},
		{"min is filled up", snapshot{min: 3, max: 5, size: 2, idle: 2}, 1},
		{"workers that leave do not count for min", snapshot{min: 3, max: 5, size: 3, idle: 2, leaving: 1}, 1},
		{"and still count for max", snapshot{min: 3, max: 3, size: 3, idle: 2, leaving: 1}, 0},
		{"the first task starts the first worker without waiting", snapshot{max: 5, queued: 4}, 1},
		{"the first one starts min", snapshot{min: 2, max: 5, queued: 9}, 2},
		{"a worker that starts is enough for one task", snapshot{max: 5, queued: 1, size: 1, starting: 1, oldest: time.Second}, 0},
		{"one more for each task that waits", snapshot{max: 5, queued: 4, size: 1, busy: 1, oldest: time.Second}, 4},
		{"not before the first millisecond", snapshot{max: 5, queued: 4, size: 1, busy: 1, oldest: ms / 2}, 0},
		{"not while a worker is about to be free", snapshot{max: 5, queued: 4, size: 1, busy: 1, oldest: 20 * ms, meanRun: 30 * ms, meanStart: 40 * ms}, 0},
		{"a start is cheaper than the wait", snapshot{max: 5, queued: 4, size: 1, busy: 1, oldest: 20 * ms, meanRun: 30 * ms, meanStart: 10 * ms}, 4},
		{"never above max", snapshot{max: 5, queued: 100, size: 3, busy: 3, oldest: time.Second}, 2},
		{"all leave, and a task waits", snapshot{max: 2, queued: 1, size: 1, leaving: 1}, 1},
		{"spare", snapshot{max: 5, spare: 2, size: 1, busy: 1}, 2},
		{"spare within max", snapshot{max: 2, spare: 2, size: 1, busy: 1}, 1},
		{"spare ones that start", snapshot{max: 5, spare: 2, size: 2, busy: 1, starting: 1}, 1},
		{"above max after a resize", snapshot{max: 2, size: 5, busy: 5, queued: 9, oldest: time.Second}, 0},
		{"as many starts as processors can use", snapshot{max: 100, queued: 90, size: 2, busy: 2, oldest: time.Second, startLimit: 4}, 4},
		{"those under way counted", snapshot{max: 100, queued: 90, size: 5, busy: 2, starting: 3, oldest: time.Second, startLimit: 4}, 1},
	} {
		if c.s.startLimit == 0 {
			c.s.startLimit = 8
		}
		if got := c.s.grow(); got != c.want {
			t.Errorf("%s: %d starts, want %d", c.name, got, c.want)
		}
	}
}

func TestShrink(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		s    snapshot
		want bool
	}{
		{"above min", snapshot{min: 1, max: 5, size: 2, idle: 2}, true},
		{"at min", snapshot{min: 2, max: 5, size: 2, idle: 2}, false},
		{"those that leave are gone already", snapshot{min: 2, max: 5, size: 4, idle: 2, leaving: 2}, false},
		{"none is needed", snapshot{max: 5, size: 1, idle: 1}, true},
		{"a task waits", snapshot{max: 5, size: 3, idle: 1, queued: 1}, false},
		{"spare beyond those that are busy", snapshot{max: 5, spare: 1, size: 3, idle: 1, busy: 2}, false},
		{"more than spare", snapshot{max: 5, spare: 1, size: 4, idle: 2, busy: 2}, true},
		{"min above max after a resize", snapshot{min: 5, max: 2, size: 3, idle: 3}, true},
	} {
		if got := c.s.shrink(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// randomSnapshot is any state that a pool may be in.
func randomSnapshot(r *rand.Rand) snapshot {
	n := func(below int) int { return r.IntN(below) }
	s := snapshot{
		queued: n(3) * n(50), oldest: time.Duration(n(int(50 * ms))), meanRun: time.Duration(n(int(50 * ms))),
		meanStart: time.Duration(n(int(50 * ms))), starting: n(4), idle: n(4), busy: n(4), leaving: n(4),
		max: 1 + n(12), spare: n(4), startLimit: 4 + n(8),
	}
	s.min = n(s.max + 1)
	s.size = s.starting + s.idle + s.busy + s.leaving
	return s
}

func TestSizeStaysWithinBounds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		s := randomSnapshot(r)
		n := s.grow()
		if n < 0 || s.size+n > max(s.size, s.max) {
			t.Fatalf("%+v: %d starts go beyond max", s, n)
		}
		if s.starting+n > max(s.starting, s.startLimit) {
			t.Fatalf("%+v: %d starts at a time are too many", s, n)
		}
		if s.size-s.leaving+n < s.min && s.size+n < s.max && s.starting+n < s.startLimit {
			t.Fatalf("%+v: %d starts leave the pool below min", s, n)
		}
		if s.queued > 0 && s.size == 0 && n == 0 {
			t.Fatalf("%+v: a task waits and there will be no worker", s)
		}
		// Idle workers leave one after the other as long as the rule lets them.
		for s.idle > 0 && s.shrink() {
			s.idle--
			s.leaving++
			if s.queued > 0 || s.size-s.leaving < s.min {
				t.Fatalf("%+v: shrunk below min, or while tasks wait", s)
			}
		}
		// What has shrunk does not grow at once: the pool would swing.
		if s.queued == 0 && s.size-s.leaving >= max(s.min, s.busy+s.spare) && s.idle+s.starting >= s.spare && s.grow() > 0 {
			t.Fatalf("%+v: grows again after it has shrunk", s)
		}
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mean time.Duration
		want int
	}{
		{0, 1}, {time.Nanosecond, MaxWindow}, {5 * time.Microsecond, 40}, {10 * time.Microsecond, 20}, {50 * time.Microsecond, 4},
		{100 * time.Microsecond, 2}, {time.Millisecond, 2}, {2 * ms, 1}, {time.Hour, 1},
	} {
		if got := window(c.mean); got != c.want {
			t.Errorf("tasks of %v: window %d, want %d", c.mean, got, c.want)
		}
	}
	last := MaxWindow
	for mean := time.Duration(1); mean < time.Second; mean += mean/16 + 1 {
		n := window(mean)
		if n < 1 || n > last {
			t.Fatalf("tasks of %v: window %d after %d for shorter ones", mean, n, last)
		}
		last = n
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	if d := backoff(0); d != 0 {
		t.Errorf("no failure: %v", d)
	}
	last := time.Duration(0)
	for n := 1; n < 100; n++ {
		d := backoff(n)
		if d < last || d > 5*time.Second || n < 8 && d < 2*last {
			t.Errorf("after %d failures %v, after one less %v", n, d, last)
		}
		last = d
	}
	if last != 5*time.Second {
		t.Errorf("the longest is %v, want 5 s", last)
	}
}

func TestMean(t *testing.T) {
	t.Parallel()
	var m mean
	m.add(int64(ms))
	if m != mean(ms) {
		t.Errorf("the first value is the mean: %v", time.Duration(m))
	}
	for range 100 {
		m.add(int64(10 * ms))
	}
	if d := time.Duration(m); d < 9*ms || d > 10*ms {
		t.Errorf("after many of 10 ms the mean is %v", d)
	}
	for range 1000 {
		m.add(0)
	}
	if m < 1 || m > 16 {
		t.Errorf("after many of no time at all the mean is %d ns; 0 means unknown", m)
	}
}
