package api

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/history"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// OverviewInfo is the answer of /v1/overview: a snapshot of all pools.
type OverviewInfo struct {
	Now   string    `json:"now"`
	Pools []NowInfo `json:"pools"`
	// Totals is the sum over all pools. Its Oldest leaves out pools whose workers do
	// not start.
	Totals NowInfo `json:"totals"`
	// Scheduled is the number of jobs in all queues that wait for their start time.
	Scheduled int `json:"scheduled"`
}

// NowInfo is a snapshot of one pool, or of all. Rates are in tasks per second over
// about the last ten seconds; durations are in seconds.
type NowInfo struct {
	Name    string  `json:"name,omitempty"`
	State   string  `json:"state,omitempty"`
	Paused  bool    `json:"paused,omitempty"`
	Error   string  `json:"error,omitempty"`
	Waiting int     `json:"waiting"`
	Taken   int     `json:"taken"`
	Dead    int     `json:"dead"`
	Oldest  string  `json:"oldest,omitempty"`
	Running int     `json:"running"`
	Workers int     `json:"workers"`
	Max     int     `json:"max"`
	Rate    float32 `json:"rate"`
	Errors  float32 `json:"errors"`
	WaitP50 float32 `json:"wait_p50,omitempty"`
	WaitP99 float32 `json:"wait_p99,omitempty"`
	RunP50  float32 `json:"run_p50,omitempty"`
	RunP99  float32 `json:"run_p99,omitempty"`
}

func nowOf(p *PoolNow) NowInfo {
	return NowInfo{
		Name: p.Name, State: p.State, Paused: p.Paused, Error: p.Error, Waiting: int(known(p.Waiting)), Taken: p.Taken, Dead: p.Dead, Oldest: stamp(p.Oldest),
		Running: int(known(p.Running)), Workers: p.Workers, Max: p.Max, Rate: known(p.Rate), Errors: known(p.Errors),
		WaitP50: known(p.WaitP50), WaitP99: known(p.WaitP99), RunP50: known(p.RunP50), RunP99: known(p.RunP99),
	}
}

// known replaces an unknown value (NaN) by 0.
func known(v float32) float32 {
	if v != v {
		return 0
	}
	return v
}

// glance is one snapshot of all pools.
type glance struct {
	at   time.Time
	info OverviewInfo
	body []byte // its pools and totals as JSON, to detect changes
	err  error
}

// glances caches the last snapshot of all pools, so that the store is queried at a
// bounded rate, however many readers there are.
type glances struct {
	turn chan struct{} // capacity 1: full while one caller takes a snapshot

	mu   sync.Mutex
	last *glance // guarded by mu
}

func (g *glances) recent(within time.Duration) *glance {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last == nil || time.Since(g.last.at) >= within {
		return nil
	}
	return g.last
}

// glance returns a snapshot of all pools that is not older than OverviewEvery.
func (a *API) glance(ctx context.Context) (*glance, error) {
	fresh := a.config.OverviewEvery * 9 / 10 // a bit less, so that a reader every OverviewEvery gets a new snapshot each time
	if g := a.glances.recent(fresh); g != nil {
		return g, g.err
	}
	select {
	case a.glances.turn <- struct{}{}:
		defer func() { <-a.glances.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if g := a.glances.recent(fresh); g != nil {
		return g, g.err // another caller has just taken it
	}
	g := a.lookNow(ctx)
	if ctx.Err() == nil || g.err == nil { // an error because this caller left must not be shared
		a.glances.mu.Lock()
		a.glances.last = g
		a.glances.mu.Unlock()
	}
	return g, g.err
}

func (a *API) lookNow(ctx context.Context) *glance {
	g := &glance{at: time.Now()}
	o, err := a.backend.Overview(ctx)
	if err != nil {
		g.err = err
		return g
	}
	g.info = OverviewInfo{Now: stamp(g.at), Pools: make([]NowInfo, len(o.Pools)), Totals: nowOf(&o.Total), Scheduled: o.Scheduled}
	for i := range o.Pools {
		g.info.Pools[i] = nowOf(&o.Pools[i])
	}
	timeless := g.info
	timeless.Now = ""
	g.body, g.err = encode(timeless)
	return g
}

// overview returns a snapshot of all pools.
func (a *API) overview(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	g, err := a.glance(r.Context())
	if err != nil {
		return problemOf(err)
	}
	return writeJSON(w, http.StatusOK, g.info)
}

// overviewEvents streams a snapshot of all pools whenever it changes.
func (a *API) overviewEvents(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	ctx, cancel := context.WithCancel(r.Context())
	waiting, p := a.startWaiting(cancel)
	if p != nil {
		return p
	}
	defer a.waits.end(waiting)
	s := a.stream(w, eventsType)
	defer s.close()
	if r.Method == http.MethodHead {
		return nil
	}
	tick := time.NewTicker(a.config.OverviewEvery)
	defer tick.Stop()
	var sent []byte
	spoke := time.Now()
	for {
		g, err := a.glance(ctx)
		switch {
		case ctx.Err() != nil:
			if a.live.Err() != nil {
				s.comment("the daemon is stopping: ask again, or ask another node")
				s.flush() //nolint:errcheck // this is the end of it
			}
			return nil
		case err != nil && time.Since(spoke) >= a.config.KeepAlive:
			s.comment("the pools cannot be read: " + oneLine(err.Error()))
		case err == nil && (sent == nil || !bytes.Equal(sent, g.body)):
			sent = g.body
			if s.eventOf("overview", "", g.info) != nil {
				return nil
			}
		case time.Since(spoke) >= a.config.KeepAlive:
			s.comment("still there")
		}
		if len(s.buffer) > 0 {
			if s.flush() != nil {
				return nil
			}
			spoke = time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// HistoryInfo is the answer of /v1/history.
type HistoryInfo struct {
	// Step is the time between two points in seconds, and From the time of the first.
	Step   float64    `json:"step"`
	From   string     `json:"from"`
	Series SeriesInfo `json:"series"`
}

// SeriesInfo has the values of all points; unknown values are null.
type SeriesInfo struct {
	Waiting numbers `json:"waiting"`
	Oldest  numbers `json:"oldest"`
	Running numbers `json:"running"`
	Rate    numbers `json:"rate"`
	Errors  numbers `json:"errors"`
	WaitP50 numbers `json:"wait_p50"`
	WaitP99 numbers `json:"wait_p99"`
	RunP50  numbers `json:"run_p50"`
	RunP99  numbers `json:"run_p99"`
}

// longestSpan is how far back the history goes.
const longestSpan = time.Hour

// history returns the history of a pool, or of all pools together.
func (a *API) history(w http.ResponseWriter, r *http.Request, q query) *problem.Problem {
	var f faults
	pool := poolOf(q, &f)
	span := longestSpan
	if text, there := q.look("span"); there {
		d, err := readDuration(text)
		if err != nil {
			f.add("span is " + quoted(text) + ": " + err.Error())
		}
		span = min(d, longestSpan)
	}
	if p := f.problem(); p != nil {
		return p
	}
	s, err := a.backend.History(pool, span)
	if err != nil {
		return problemOf(err)
	}
	return writeJSON(w, http.StatusOK, HistoryInfo{Step: s.Step.Seconds(), From: stamp(s.From), Series: seriesOf(s.Points)})
}

func seriesOf(points []history.Point) SeriesInfo {
	column := func(value func(*history.Point) float32) numbers {
		all := make(numbers, len(points))
		for i := range points {
			all[i] = value(&points[i])
		}
		return all
	}
	return SeriesInfo{
		Waiting: column(func(p *history.Point) float32 { return p.Waiting }),
		Oldest:  column(func(p *history.Point) float32 { return p.Oldest }),
		Running: column(func(p *history.Point) float32 { return p.Running }),
		Rate:    column(func(p *history.Point) float32 { return p.Rate }),
		Errors:  column(func(p *history.Point) float32 { return p.Errors }),
		WaitP50: column(func(p *history.Point) float32 { return p.WaitP50 }),
		WaitP99: column(func(p *history.Point) float32 { return p.WaitP99 }),
		RunP50:  column(func(p *history.Point) float32 { return p.RunP50 }),
		RunP99:  column(func(p *history.Point) float32 { return p.RunP99 }),
	}
}

// Me is the answer of /v1/me: the caller and its role.
type Me struct {
	Role    string `json:"role"`
	Node    string `json:"node,omitempty"`
	Version string `json:"version,omitempty"`
}

// me returns the caller's role.
func (a *API) me(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	s := a.backend.Status()
	return writeJSON(w, http.StatusOK, Me{Role: access.RoleOf(r.Context()).String(), Node: s.Node, Version: s.Version})
}
