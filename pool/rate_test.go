package pool

import (
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMeter(t *testing.T) {
	t.Parallel()
	const ms = int64(time.Millisecond)
	for _, c := range []struct {
		name  string
		rate  float64
		burst int
		asks  []int64         // when starts are wanted
		waits []time.Duration // how long each then waits; it starts when it may
	}{
		{"even", 100, 1, []int64{1, 1 + 10*ms, 1 + 20*ms}, []time.Duration{0, 0, 0}},
		{"too early", 100, 1, []int64{1, 1 + 4*ms, 1 + 12*ms}, []time.Duration{0, 6e6, 8e6}},
		{"at once", 100, 1, []int64{1, 1, 1, 1}, []time.Duration{0, 10e6, 20e6, 30e6}},
		{"a burst", 100, 3, []int64{1, 1, 1, 1, 1}, []time.Duration{0, 0, 0, 10e6, 20e6}},
		{"a burst, a rest, a burst", 100, 2, []int64{1, 1, 1, 100 * ms, 100 * ms, 100 * ms}, []time.Duration{0, 0, 10e6, 0, 0, 10e6}},
		{"a rest fills the bucket by halves", 100, 3, []int64{1, 1, 1, 1 + 10*ms, 1 + 10*ms}, []time.Duration{0, 0, 0, 0, 10e6}},
		{"rest is not saved beyond the burst", 1000, 2, []int64{1e12, 1e12, 1e12}, []time.Duration{0, 0, 1e6}},
		{"rounded up", 3, 1, []int64{0, 0}, []time.Duration{0, 333333334}},
		{"as fast as can be said", 1e9, 1, []int64{0, 0}, []time.Duration{0, 1}},
		{"slow", 1.0 / 86400, 1, []int64{5, 5}, []time.Duration{0, 24 * time.Hour}},
	} {
		m, err := newMeter(c.rate, c.burst)
		if err != nil || !m.limited() {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for i, ask := range c.asks {
			wait := m.wait(ask)
			if wait != c.waits[i] {
				t.Errorf("%s: start %d waits %v, want %v", c.name, i, wait, c.waits[i])
			}
			if m.wait(ask+int64(wait)) != 0 {
				t.Errorf("%s: start %d waits again", c.name, i)
			}
			m.start(ask + int64(wait))
		}
	}
}

func TestMeterFaults(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1), 1e10, math.Inf(-1)} {
		if _, err := newMeter(rate, 1); err == nil || !strings.Contains(err.Error(), "starts per second") {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
	if _, err := newMeter(1, 40_000_000); err == nil || !strings.Contains(err.Error(), "at most a year") {
		t.Errorf("a burst of more than a year: %v", err)
	}
	if _, err := newMeter(math.SmallestNonzeroFloat64, 1); err == nil {
		t.Error("the smallest rate is no fault")
	}
}

// FuzzMeter: whatever the rate, in no stretch of time start more than the burst and
// the rate allow, and a start that has waited may start.
func FuzzMeter(f *testing.F) {
	f.Add(100.0, 3, []byte{0, 0, 9, 200, 0})
	f.Add(1e9, 1, []byte{0, 1})
	f.Fuzz(func(t *testing.T, rate float64, burst int, gaps []byte) {
		m, err := newMeter(rate, max(burst, 1))
		if err != nil {
			return
		}
		now, starts := int64(1), []int64{}
		for _, gap := range gaps {
			now += int64(gap) * m.period / 16
			now += int64(m.wait(now))
			if m.wait(now) != 0 {
				t.Fatal("it waits again")
			}
			m.start(now)
			starts = append(starts, now)
		}
		for i, from := range starts {
			for j := i; j < len(starts); j++ {
				if n := int64(j - i + 1 - max(burst, 1)); n > 0 && starts[j]-from < n*m.period {
					t.Fatalf("%d starts in %d ns, period %d, burst %d", j-i+1, starts[j]-from, m.period, burst)
				}
			}
		}
	})
}

// TestRateOfLane: tasks start when the rate says, to the nanosecond, also after a
// rest, and the pool works on meanwhile.
func TestRateOfLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Max: 4})
		l := openLane(t, p, LaneConfig{Rate: 10, Burst: 3})
		begin := time.Now()
		at := make(chan time.Duration, 100)
		put := func(n int) {
			for range n {
				if err := l.Go(bg, func() { at <- time.Since(begin) }); err != nil {
					t.Fatal(err)
				}
			}
		}
		put(6)
		<-time.After(250 * time.Millisecond)
		if err := p.Go(bg, func() { at <- -1 }); err != nil {
			t.Fatal(err)
		}
		<-time.After(2*time.Second - 250*time.Millisecond)
		put(4)
		if err := p.Drain(bg); err != nil {
			t.Error(err)
		}
		close(at)
		var got []time.Duration
		for d := range at {
			got = append(got, d)
		}
		ms := time.Millisecond
		want := []time.Duration{0, 0, 0, 100 * ms, 200 * ms, -1, 300 * ms, 2000 * ms, 2000 * ms, 2000 * ms, 2100 * ms}
		if !slices.Equal(got, want) {
			t.Errorf("started at %v, want %v", got, want)
		}
	})
}
