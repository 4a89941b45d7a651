package history

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
)

func open(t *testing.T, c Config) *History {
	t.Helper()
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// start is at the beginning of a step.
var start = time.Unix(1_000_000, 0)

func after(d time.Duration) time.Time { return start.Add(d) }

// spread is a histogram of n durations of about d.
func spread(t *testing.T, d time.Duration, n uint64) (h bullpen.Histogram) {
	t.Helper()
	for i := range h.Buckets {
		if h.Bound(i) >= d {
			h.Count, h.Buckets[i], h.Sum, h.Max = n, n, time.Duration(n)*d, d
			return h
		}
	}
	t.Fatalf("no bucket is for %v", d)
	return h
}

func isNaN(v float32) bool { return v != v }

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		says   []string
	}{
		{Config{Step: time.Millisecond}, []string{"Step is 1ms"}},
		{Config{Span: time.Second}, []string{"Span is 1s"}},
		{Config{Step: -time.Second, Span: -time.Minute}, []string{"Step is -1s", "Span is -1m"}},
		{Config{Step: time.Second, Span: 10000 * time.Hour}, []string{"at most"}},
	} {
		_, err := New(c.config)
		for _, says := range c.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%+v: %v, want %q", c.config, err, says)
			}
		}
	}
}

func TestPoints(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	fast, slow := spread(t, time.Millisecond, 100), spread(t, time.Second, 100)
	both := fast.Plus(&slow)
	h.Add(after(0), map[string]Reading{"a": {Known: true, Waiting: 5, Oldest: 2 * time.Second, Ended: 1000, Failed: 10, Run: fast}, "b": {Running: 1}})
	h.Add(after(10*time.Second), map[string]Reading{"a": {Known: true, Waiting: 7, Running: 3, Ended: 1100, Failed: 15, Run: both}, "b": {Known: true, Ended: 20, Waiting: 1}})
	s := h.Series("a", time.Minute, after(12*time.Second))
	if len(s.Points) != 6 || s.Step != 10*time.Second || !s.From.Equal(after(-40*time.Second)) {
		t.Fatalf("%d points from %v each %v", len(s.Points), s.From, s.Step)
	}
	first, second := s.Points[4], s.Points[5]
	if first.Waiting != 5 || first.Oldest != 2 || !isNaN(first.Rate) || !isNaN(first.RunP50) {
		t.Errorf("the first point is %+v: of rates nothing can be known", first)
	}
	if second.Waiting != 7 || second.Running != 3 || second.Rate != 10 || second.Errors != 0.5 || !isNaN(second.WaitP50) {
		t.Errorf("the second point is %+v", second)
	}
	if second.RunP50 < 1 || second.RunP50 > 1.3 {
		t.Errorf("all that ended between ran a second, not %v", second.RunP50)
	}
	for _, p := range s.Points[:4] {
		if !isNaN(p.Waiting) || !isNaN(p.Rate) {
			t.Errorf("before the first reading is %+v", p)
		}
	}
	all := h.Series(All, time.Minute, after(12*time.Second)).Points
	if len(all) < 6 {
		t.Fatalf("the points are %+v, want six at least", all)
	}
	if p := all[4]; !isNaN(p.Waiting) || p.Running != 1 {
		t.Errorf("the totals of all pools are there without those of one: %+v", p)
	}
	if p := all[5]; p.Waiting != 8 || p.Rate != 12 || p.Running != 3 {
		t.Errorf("all pools together are %+v", p)
	}
	for _, p := range h.Series("nobody", time.Minute, after(12*time.Second)).Points {
		if !isNaN(p.Running) {
			t.Errorf("a pool that is not there has %+v", p)
		}
	}
}

// A pool whose workers do not start has an age of its own, which does not hide those of
// the others.
func TestStuckPoolDoesNotHideTheOldest(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	h.Add(after(0), map[string]Reading{
		"good":  {Known: true, Waiting: 1, Oldest: 2 * time.Second},
		"stuck": {Known: true, Waiting: 3, Oldest: time.Hour, Stuck: true},
	})
	point := func(pool string) Point { return h.Series(pool, 10*time.Second, after(0)).Points[0] }
	if all, stuck := point(All), point("stuck"); all.Oldest != 2 || all.Waiting != 4 || stuck.Oldest != 3600 {
		t.Errorf("all are %+v, the stuck one %+v", all, stuck)
	}
}

// A pool whose workers a reload has replaced counts from 0 again.
func TestCountedAnew(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	h.Add(after(0), map[string]Reading{"a": {Ended: 1000, Failed: 100, Run: spread(t, time.Second, 1000)}})
	h.Add(after(10*time.Second), map[string]Reading{"a": {Ended: 50, Failed: 10, Run: spread(t, time.Millisecond, 50)}})
	p := h.Series("a", 10*time.Second, after(10*time.Second)).Points[0]
	if p.Rate != 5 || p.Errors != 1 || p.RunP99 > 0.002 {
		t.Errorf("after a reload there is %+v", p)
	}
}

func TestNow(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	reading := func(ended uint64) map[string]Reading {
		return map[string]Reading{"a": {Known: true, Ended: ended, Waiting: int(ended)}}
	}
	if p := h.Now(after(0), reading(1))["a"]; !isNaN(p.Rate) || p.Waiting != 1 {
		t.Errorf("before any reading: %+v", p)
	}
	h.Add(after(0), reading(0))
	h.Add(after(10*time.Second), reading(100))
	if p := h.Now(after(11*time.Second), reading(220))["a"]; p.Rate != 20 || p.Waiting != 220 {
		t.Errorf("a second after a point, the one before counts: %+v", p)
	}
	if p := h.Now(after(16*time.Second), reading(160))[All]; p.Rate != 10 {
		t.Errorf("six seconds after a point, that counts: %+v", p)
	}
}

// Steps that were left out, as on a machine that slept, have no values; nor has what
// lies further back than is kept.
func TestGaps(t *testing.T) {
	t.Parallel()
	h := open(t, Config{Step: time.Second, Span: 10 * time.Second})
	add := func(s int) { h.Add(after(time.Duration(s)*time.Second), map[string]Reading{"a": {Running: s + 1}}) }
	for s := range 8 {
		add(s)
	}
	add(12)
	var got []float32
	for _, p := range h.Series("a", time.Hour, after(12*time.Second)).Points {
		got = append(got, p.Running)
	}
	for i, want := range []float32{4, 5, 6, 7, 8, nan, nan, nan, nan, 13} {
		if got[i] != want && !(isNaN(got[i]) && isNaN(want)) {
			t.Fatalf("the points are %v", got)
		}
	}
	add(5) // the clock was set back
	if p := h.Series("a", time.Second, after(12*time.Second)).Points[0]; p.Running != 13 {
		t.Errorf("a reading of the past has changed the last point to %v", p.Running)
	}
	h.Add(after(100*time.Second), map[string]Reading{})
	if len(h.pools) != 1 {
		t.Errorf("pools that are long gone are kept: %d", len(h.pools))
	}
}

// However long it goes on and however odd the times are, nothing grows, and each
// point is that of its step.
func TestRandomTimes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	h := open(t, Config{Step: time.Second, Span: 20 * time.Second})
	want := map[int64]float32{}
	at, newest := start, int64(0)
	for n := range 5000 {
		at = at.Add(time.Duration(r.Int64N(int64(3*time.Second))) - 200*time.Millisecond)
		step := at.UnixNano() / int64(time.Second)
		if at.After(h.last.at) {
			want[step], newest = float32(n), step
		}
		h.Add(at, map[string]Reading{"a": {Running: n}})
	}
	s := h.Series("a", time.Hour, time.Unix(newest, 0))
	if len(s.Points) != 20 || len(h.pools) != 2 {
		t.Fatalf("%d points of %d pools", len(s.Points), len(h.pools))
	}
	for i, p := range s.Points {
		w, there := want[s.From.Unix()+int64(i)]
		if there != !isNaN(p.Running) || there && p.Running != w {
			t.Errorf("point %d is %v, want %v (%v)", i, p.Running, w, there)
		}
	}
}

// An hour of ten seconds, while others read.
func TestAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := open(t, Config{})
		stop := make(chan struct{})
		var reading sync.WaitGroup
		reading.Go(func() { // ends by stop
			for {
				select {
				case <-stop:
					return
				case <-time.After(7 * time.Second):
					h.Series("a", time.Hour, time.Now())
					h.Now(time.Now(), map[string]Reading{"a": {Ended: math.MaxUint64}})
				}
			}
		})
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for n := range 400 {
			<-tick.C
			h.Add(time.Now(), map[string]Reading{"a": {Known: true, Ended: uint64(n) * 50}})
		}
		close(stop)
		reading.Wait()
		points := h.Series("a", time.Hour, time.Now()).Points
		if len(points) != 360 {
			t.Fatalf("an hour has %d points", len(points))
		}
		for i, p := range points {
			if p.Rate != 5 || p.Waiting != 0 {
				t.Fatalf("point %d is %+v", i, p)
			}
		}
	})
}

// Where the point of the present step is yet to come, the series ends before it.
func TestSeriesEndsWithAPoint(t *testing.T) {
	t.Parallel()
	h := open(t, Config{})
	h.Add(after(5*time.Second), map[string]Reading{"a": {Running: 1}})
	s := h.Series("a", 20*time.Second, after(12*time.Second))
	if s.Points[1].Running != 1 || !s.From.Equal(after(-10*time.Second)) {
		t.Errorf("from %v: %+v", s.From, s.Points)
	}
}

func BenchmarkAdd(b *testing.B) {
	h, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	at := start
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(10 * time.Second)
		pools := map[string]Reading{}
		for _, name := range names {
			pools[name] = Reading{Known: true, Ended: uint64(at.Unix())}
		}
		h.Add(at, pools)
	}
}
