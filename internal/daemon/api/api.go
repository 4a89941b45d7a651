package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// Config configures an API. Only Backend is required.
type Config struct {
	// Backend is the daemon.
	Backend Backend
	// Logger logs errors that are not shown to callers; nil logs nothing.
	Logger *slog.Logger
	// MaxPayload is the largest payload of a job in bytes, equal to
	// queue.Config.MaxPayload. Default 512 KiB.
	MaxPayload int
	// MaxBody is the largest payload of an ephemeral task in bytes. Default 64 MiB.
	MaxBody int64
	// MaxWait bounds how long a request waits for the end of a job; longer waits are
	// shortened to it. Default 10 min.
	MaxWait time.Duration
	// MaxWaiting is how many requests may wait for the end of jobs, or follow jobs,
	// at a time. Default 4096.
	MaxWaiting int
	// KeepAlive is how often an idle stream of events sends a comment that keeps it
	// open. Default 15 s.
	KeepAlive time.Duration
	// OverviewEvery is how often streams of the overview check for changes, and how
	// long one snapshot is shared by all readers. Default 1 s.
	OverviewEvery time.Duration
	// Patience is how long the reader of a stream may accept no data before it is
	// disconnected. Default 30 s.
	Patience time.Duration
}

const (
	defaultPayload   = 512 << 10
	defaultBody      = 64 << 20
	defaultMaxWait   = 10 * time.Minute
	defaultWaiting   = 4096
	defaultKeepAlive = 15 * time.Second
	defaultPatience  = 30 * time.Second
	defaultOverview  = time.Second

	// lastMoments is how long requests may still wait for a job after the daemon
	// begins to stop. Most running jobs end within it, and newly stored jobs reach
	// the disk.
	lastMoments = 500 * time.Millisecond
)

func (c Config) check() error {
	var errs []error
	if c.Backend == nil {
		errs = append(errs, errors.New("Backend is nil: set the daemon that the API serves"))
	}
	if c.MaxPayload < 0 || c.MaxBody < 0 {
		errs = append(errs, fmt.Errorf("MaxPayload is %d and MaxBody %d: use positive numbers of bytes, or 0 for the default", c.MaxPayload, c.MaxBody))
	}
	if c.MaxWaiting < 0 {
		errs = append(errs, fmt.Errorf("MaxWaiting is %d: use a positive number, or 0 for the default", c.MaxWaiting))
	}
	if c.MaxWait < 0 || c.KeepAlive < 0 || c.Patience < 0 || c.OverviewEvery < 0 {
		errs = append(errs, fmt.Errorf("MaxWait is %v, KeepAlive %v, OverviewEvery %v and Patience %v: use positive durations, or 0 for the default", c.MaxWait, c.KeepAlive, c.OverviewEvery, c.Patience))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.MaxPayload = cmp.Or(c.MaxPayload, defaultPayload)
	c.MaxBody = cmp.Or(c.MaxBody, defaultBody)
	c.MaxWait = cmp.Or(c.MaxWait, defaultMaxWait)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, defaultWaiting)
	c.KeepAlive = cmp.Or(c.KeepAlive, defaultKeepAlive)
	c.Patience = cmp.Or(c.Patience, defaultPatience)
	c.OverviewEvery = cmp.Or(c.OverviewEvery, defaultOverview)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// API answers requests by calling a Backend. It is safe for concurrent use.
type API struct {
	config  Config
	backend Backend
	log     *slog.Logger

	// live ends shortly after the backend begins to stop, or on Close. Then no
	// request waits any longer.
	live context.Context //nolint:containedctx // see above
	end  context.CancelCauseFunc
	// watching is for the goroutine that ends live; Close waits for it.
	watching sync.WaitGroup
	waits    waits
	glances  glances
}

// errStopping is the cause with which waits end when the daemon stops.
var errStopping = errors.New("the daemon stops")

// New returns an API. Close ends it; it also ends by itself shortly after the backend
// begins to stop.
func New(c Config) (*API, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("api: the config is not valid: %w", err)
	}
	c = c.withDefaults()
	a := &API{config: c, backend: c.Backend, log: c.Logger}
	a.glances.turn = make(chan struct{}, 1)
	a.live, a.end = context.WithCancelCause(context.Background())
	a.watching.Go(a.watch) // ends with live
	return a, nil
}

// watch ends all waits when the daemon stops.
func (a *API) watch() {
	select {
	case <-a.backend.Stopping():
	case <-a.live.Done():
		return
	}
	timer := time.NewTimer(lastMoments)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.live.Done():
	}
	a.end(errStopping)
	a.waits.endAll()
}

// Close ends all waits. It may be called more than once.
func (a *API) Close() {
	a.end(errStopping)
	a.waits.endAll()
	a.watching.Wait()
}

// stopping reports whether the daemon has begun to stop.
func (a *API) stopping() bool {
	select {
	case <-a.backend.Stopping():
		return true
	default:
		return a.live.Err() != nil
	}
}

// errStops returns the problem with which a stopping daemon refuses new work.
func errStops() *problem.Problem {
	return problem.New(problem.Closed, "The daemon is stopping and accepts nothing more: try again after a moment, or use another node.")
}

// route is a access.Route with the names of its query parameters.
type route struct {
	access.Route
	query []string
}

// answer answers a request: it returns a problem, or nil after it has written the
// answer.
type answer func(a *API, w http.ResponseWriter, r *http.Request, q query) *problem.Problem

// on returns a route for an answer.
func (a *API) on(method, pattern string, role access.Role, answers answer, params ...string) route {
	h := &handler{api: a, answers: answers, params: params, verbs: verbs[pattern]}
	return route{access.Route{Method: method, Pattern: pattern, Role: role, Handler: h}, params}
}

// streaming marks a route that processes its body as it arrives.
func (a *API) streaming(r route) route {
	r.Streams = true
	return r
}

// following marks a route that streams events.
func (a *API) following(r route) route {
	r.Follows = true
	return r
}

// handler parses the query and calls the answer.
type handler struct {
	api     *API
	answers answer
	params  []string
	verbs   map[string]string // names that are not ids on this path; nil if any id is allowed
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var faults faults
	q := readQuery(r.URL.RawQuery, h.params, &faults)
	p := h.notAnID(w, r)
	if p == nil {
		p = faults.problem()
	}
	if p == nil {
		p = h.answers(h.api, w, r, q)
	}
	if p != nil {
		h.api.fail(w, r, p)
	}
}

// fail answers with a problem.
func (a *API) fail(w http.ResponseWriter, r *http.Request, p *problem.Problem) {
	if p.Cause == problem.Internal {
		a.log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "error", p.Detail)
	}
	p.Write(w)
}

// Routes returns all routes, for package access.
func (a *API) Routes() []access.Route {
	routes := a.routes()
	all := make([]access.Route, len(routes))
	for i := range routes {
		all[i] = routes[i].Route
	}
	return all
}

func (a *API) routes() []route {
	const read, submit, admin = access.Read, access.Submit, access.Admin
	return append(a.scheduleRoutes(), []route{
		a.on("POST", "/v1/pools/{pool}/jobs", submit, (*API).submit, submitParams...),
		a.streaming(a.on("POST", "/v1/pools/{pool}/bulk", submit, (*API).bulk)),
		a.on("POST", "/v1/pools/{pool}/run", submit, (*API).run, runParams...),
		a.on("DELETE", "/v1/run/{id}", submit, (*API).cancelRun),
		a.on("GET", "/v1/jobs", read, (*API).list, append([]string{"limit", "after"}, listChoices...)...),
		a.on("POST", "/v1/jobs/cancel", submit, (*API).cancelMany),
		a.on("POST", "/v1/jobs/retry", submit, (*API).retryMany),
		a.on("GET", "/v1/jobs/{id}", read, (*API).get, "wait"),
		a.on("GET", "/v1/jobs/{id}/result", read, (*API).result, "wait"),
		a.on("GET", "/v1/jobs/{id}/payload", read, (*API).payload),
		a.following(a.on("GET", "/v1/jobs/{id}/events", read, (*API).events, "after")),
		a.on("POST", "/v1/jobs/{id}/cancel", submit, (*API).cancel),
		a.on("POST", "/v1/jobs/{id}/retry", submit, (*API).retry),
		a.on("GET", "/v1/pools", read, (*API).pools),
		a.on("GET", "/v1/pools/{pool}", read, (*API).pool),
		a.on("GET", "/v1/overview", read, (*API).overview),
		a.following(a.on("GET", "/v1/overview/events", read, (*API).overviewEvents)),
		a.on("GET", "/v1/history", read, (*API).history, "pool", "span"),
		a.on("GET", "/v1/workers", read, (*API).workers, "pool"),
		a.on("POST", "/v1/workers/{worker}/recycle", admin, (*API).recycle, "pool"),
		a.on("POST", "/v1/pools/{pool}/scale", admin, (*API).scale),
		a.on("POST", "/v1/pools/{pool}/pause", admin, (*API).pause),
		a.on("POST", "/v1/pools/{pool}/resume", admin, (*API).resume),
		a.on("POST", "/v1/pools/{pool}/reload", admin, (*API).reloadPool),
		a.on("GET", "/v1/pools/{pool}/groups", read, (*API).groups),
		a.on("PUT", "/v1/pools/{pool}/groups", admin, (*API).setGroup, "group"),
		a.on("DELETE", "/v1/pools/{pool}/groups", admin, (*API).resetGroup, "group"),
		a.on("GET", "/v1/dead", read, (*API).listDead, append([]string{"limit", "after"}, deadChoices...)...),
		a.on("GET", "/v1/dead/causes", read, (*API).causes, causeChoices...),
		a.on("GET", "/v1/dead/{id}", read, (*API).getDead),
		a.on("POST", "/v1/dead/{id}/retry", submit, (*API).retryDead),
		a.on("DELETE", "/v1/dead/{id}", admin, (*API).removeDead),
		a.on("POST", "/v1/dead/retry", admin, (*API).retryAll),
		a.on("POST", "/v1/dead/remove", admin, (*API).removeAll),
		a.on("POST", "/v1/chains", submit, (*API).chain),
		a.on("POST", "/v1/batches", submit, (*API).makeBatch),
		a.on("GET", "/v1/batches", read, (*API).listBatches, "state", "order", "limit", "after"),
		a.on("GET", "/v1/batches/{id}", read, (*API).getBatch, "wait"),
		a.on("GET", "/v1/batches/{id}/jobs", read, (*API).listMembers, "limit", "after"),
		a.streaming(a.on("POST", "/v1/batches/{id}/jobs", submit, (*API).addMembers, "offset", "pool")),
		a.on("POST", "/v1/batches/{id}/seal", submit, (*API).sealBatch),
		a.on("POST", "/v1/batches/{id}/cancel", submit, (*API).cancelBatch),
		a.on("GET", "/v1/me", read, (*API).me),
		a.on("GET", "/v1/status", read, (*API).status),
		a.on("POST", "/v1/reload", admin, (*API).reload),
		a.on("POST", "/v1/backup", admin, (*API).backup),
	}...)
}

// Handler serves all routes without checking roles, and answers anything else with a
// problem.
func (a *API) Handler() http.Handler { return Mux(a.Routes()) }
