// Package history keeps the state of pools during the last hour, in memory: one point
// every ten seconds, in rings of fixed size. It does no I/O and has no clock: the
// caller supplies time and readings.
package history

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
)

// All is the name for all pools together; no pool has it.
const All = ""

// Config configures a History. Zero values have the defaults given here.
type Config struct {
	// Step is the time between two points: 10 s.
	Step time.Duration
	// Span is how far back the points reach: 1 h.
	Span time.Duration
}

const (
	defaultStep = 10 * time.Second
	defaultSpan = time.Hour
	mostPoints  = 1 << 16
)

func (c Config) withDefaults() Config {
	if c.Step == 0 {
		c.Step = defaultStep
	}
	if c.Span == 0 {
		c.Span = defaultSpan
	}
	return c
}

func (c Config) check() error {
	var errs []error
	if c.Step < time.Second {
		errs = append(errs, fmt.Errorf("Step is %v: use a second or more, or 0 for %v", c.Step, defaultStep))
	}
	if c.Span < c.Step {
		errs = append(errs, fmt.Errorf("Span is %v: use at least Step (%v), or 0 for %v", c.Span, c.Step, defaultSpan))
	}
	if len(errs) == 0 && c.Span/c.Step > mostPoints {
		errs = append(errs, fmt.Errorf("Span is %v, which is %d times Step: use at most %d times Step", c.Span, c.Span/c.Step, mostPoints))
	}
	return errors.Join(errs...)
}

// Reading is the state of a pool at one time.
type Reading struct {
	// Known reports that the store has returned Waiting and Oldest.
	Known   bool
	Waiting int
	// Oldest is the age of the oldest job in the queue; 0 for none.
	Oldest time.Duration
	// Stuck reports that the workers do not start and none runs. Such a pool is left
	// out of the Oldest of [All], which it would dominate.
	Stuck bool
	// Running is the number of tasks that the workers have in hand.
	Running int
	// Ended and Failed count the tasks that have ended and those that ended badly;
	// Wait and Run are histograms of how long they waited and ran. They only grow: a
	// smaller value than before means that counting restarted at 0.
	Ended, Failed uint64
	Wait, Run     bullpen.Histogram
}

// History keeps points of pools. It is safe for concurrent use.
type History struct {
	config Config
	size   int // of a ring

	mu    sync.Mutex
	pools map[string]*series // guarded by mu
	// last and before are the readings of the last two points.
	last, before readings // guarded by mu
}

// readings are the readings of all pools at one time.
type readings struct {
	at    time.Time
	pools map[string]Reading
}

// New returns a History without points.
func New(c Config) (*History, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("history: the config is not valid: %w", err)
	}
	return &History{config: c, size: int(c.Span / c.Step), pools: map[string]*series{}}, nil
}

// Step returns the time between two points.
func (h *History) Step() time.Duration { return h.config.Step }

// Add records the states of all pools at a time as a point; within a step, the last
// point counts. It forgets pools that were absent for the whole span.
func (h *History) Add(at time.Time, pools map[string]Reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !at.After(h.last.at) {
		return // the clock was set back, or two callers added at once
	}
	step := h.stepOf(at)
	now := readings{at, pools}
	for name, p := range points(&h.last, &now) {
		s := h.pools[name]
		if s == nil {
			s = newSeries(h.size)
			h.pools[name] = s
		}
		s.put(step, p)
	}
	for name, s := range h.pools {
		if step-s.newest >= int64(h.size) {
			delete(h.pools, name)
		}
	}
	h.before, h.last = h.last, now
}

// Now returns a point of each pool, and of [All], for their states at a time, without
// keeping it. Rates and durations are those since the last point, or since the one
// before if the last is younger than half a step.
func (h *History) Now(at time.Time, pools map[string]Reading) map[string]Point {
	h.mu.Lock()
	since := h.last
	if at.Sub(since.at) < h.config.Step/2 && !h.before.at.IsZero() {
		since = h.before
	}
	h.mu.Unlock()
	return points(&since, &readings{at, pools})
}

// Series is a part of the history of a pool.
type Series struct {
	// From is the time of the first point; one follows each Step.
	From time.Time
	Step time.Duration
	// Points are the points of the span, newest last. Unknown values are NaN.
	Points []Point
}

// Series returns the points of a pool, or of [All], up to a time. The points of an
// unknown pool have no values.
func (h *History) Series(pool string, span time.Duration, to time.Time) Series {
	n := int(min(max(span, h.config.Step), h.config.Span) / h.config.Step)
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.stepOf(to)
	if h.stepOf(h.last.at) < end {
		end-- // this step has no point yet
	}
	first := end - int64(n) + 1
	s := h.pools[pool]
	all := Series{From: time.Unix(0, first*int64(h.config.Step)).UTC(), Step: h.config.Step, Points: make([]Point, n)}
	for i := range all.Points {
		all.Points[i] = s.at(first + int64(i))
	}
	return all
}

func (h *History) stepOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano() / int64(h.config.Step)
}
