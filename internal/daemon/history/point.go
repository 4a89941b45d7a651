package history

import (
	"math"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Point is the state of a pool during one step. Unknown values are NaN.
type Point struct {
	// Waiting and Running are numbers of jobs; Oldest is in seconds.
	Waiting, Oldest, Running float32
	// Rate is the number of tasks that ended per second, and Errors of those that
	// ended badly.
	Rate, Errors float32
	// How long the ended tasks waited and ran, in seconds: median and 99th
	// percentile.
	WaitP50, WaitP99, RunP50, RunP99 float32
}

// NaN marks an unknown value.
var nan = float32(math.NaN())

// unknown is a point without values.
var unknown = Point{nan, nan, nan, nan, nan, nan, nan, nan, nan}

// growth is what the counters of a pool have grown between two times.
type growth struct {
	Reading

	ended, failed uint64
}

// points returns the points for two readings, by pool and for all.
func points(since, now *readings) map[string]Point {
	all := make(map[string]Point, len(now.pools)+1)
	total := growth{Reading: Reading{Known: true}}
	span := now.at.Sub(since.at)
	for name, r := range now.pools {
		earlier, there := since.pools[name]
		g := grown(&earlier, &r)
		if !there && since.at.IsZero() { // the first reading: rates are unknown
			span = 0
		}
		all[name] = g.point(span)
		total.add(&g)
	}
	all[All] = total.point(span)
	return all
}

// grown returns the growth from an earlier reading to now.
func grown(earlier, now *Reading) growth {
	g := growth{Reading: *now, ended: now.Ended, failed: now.Failed}
	if now.Ended >= earlier.Ended && now.Failed >= earlier.Failed {
		g.ended -= earlier.Ended
		g.failed -= earlier.Failed
	}
	g.Wait, g.Run = minus(&now.Wait, &earlier.Wait), minus(&now.Run, &earlier.Run)
	return g
}

// minus gives what a has more than b, all of it where it was counted anew.
func minus(a, b *bullpen.Histogram) bullpen.Histogram {
	if a.Count < b.Count {
		return *a
	}
	for i := range a.Buckets {
		if a.Buckets[i] < b.Buckets[i] {
			return *a
		}
	}
	return a.Minus(b)
}

// add adds the growth of another pool.
func (g *growth) add(o *growth) {
	g.Known = g.Known && o.Known
	g.Waiting += o.Waiting
	if !o.Stuck {
		g.Oldest = max(g.Oldest, o.Oldest)
	}
	g.Running += o.Running
	g.ended += o.ended
	g.failed += o.failed
	g.Wait, g.Run = g.Wait.Plus(&o.Wait), g.Run.Plus(&o.Run)
}

// point returns the point for the growth in a span. If the span is zero, rates and
// durations are unknown.
func (g *growth) point(span time.Duration) Point {
	p := unknown
	p.Running = float32(g.Running)
	if g.Known {
		p.Waiting, p.Oldest = float32(g.Waiting), float32(max(g.Oldest, 0).Seconds())
	}
	if span <= 0 {
		return p
	}
	p.Rate, p.Errors = float32(float64(g.ended)/span.Seconds()), float32(float64(g.failed)/span.Seconds())
	if g.Wait.Count > 0 {
		p.WaitP50, p.WaitP99 = quantile(&g.Wait, 0.5), quantile(&g.Wait, 0.99)
	}
	if g.Run.Count > 0 {
		p.RunP50, p.RunP99 = quantile(&g.Run, 0.5), quantile(&g.Run, 0.99)
	}
	return p
}

func quantile(h *bullpen.Histogram, q float64) float32 { return float32(h.Quantile(q).Seconds()) }

// series is the ring of one pool.
type series struct {
	points []Point
	newest int64 // step of the newest point
}

func newSeries(size int) *series {
	return &series{points: make([]Point, size), newest: math.MinInt64 / 2}
}

// put stores the point of a step. Skipped steps have none.
func (s *series) put(step int64, p Point) {
	for missing := max(s.newest+1, step-int64(len(s.points))); missing < step; missing++ {
		s.points[s.index(missing)] = unknown
	}
	s.points[s.index(step)] = p
	s.newest = step
}

// at returns the point of a step.
func (s *series) at(step int64) Point {
	if s == nil || step > s.newest || step <= s.newest-int64(len(s.points)) {
		return unknown
	}
	return s.points[s.index(step)]
}

func (s *series) index(step int64) int {
	n := int64(len(s.points))
	return int((step%n + n) % n)
}
