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

	"github.com/bullpen-run/bullpen/internal/daemon/guard"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// Config is what an API needs. Only Backend is needed.
type Config struct {
	// Backend is the daemon.
	Backend Backend
	// Logger gets what callers cannot be told; nil logs nothing.
	Logger *slog.Logger
	// MaxPayload is the largest payload of a job in bytes: what the queue takes
	// (queue.Config.MaxPayload). Default 512 KiB.
	MaxPayload int
	// MaxBody is the largest payload of an ephemeral task in bytes. Default 64 MiB.
	MaxBody int64
	// MaxWait is the longest that a request waits for the end of a job; longer
	// waits are cut to it. Default 10 min.
	MaxWait time.Duration
	// MaxWaiting is how many requests may wait for the end of jobs, or follow them,
	// at a time. Default 4096.
	MaxWaiting int
	// KeepAlive is how often a stream of events that has nothing to say shows that
	// it lives. Default 15 s.
	KeepAlive time.Duration
	// OverviewEvery is how often streams of the overview look for something new, and
	// for how long one look serves all. Default 1 s.
	OverviewEvery time.Duration
	// Patience is how long a reader of a stream may take none of it before it is
	// cut off. Default 30 s.
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

	// lastMoments is how long requests that wait for a job may still wait when the
	// daemon begins to stop: most jobs that run then end within it, and what was
	// just put is on the disk.
	lastMoments = 500 * time.Millisecond
)

func (c Config) check() error {
	var errs []error
	if c.Backend == nil {
		errs = append(errs, errors.New("Backend is nil: give the daemon that the API is for"))
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

// API answers requests by asking a Backend. It is safe for concurrent use.
type API struct {
	config  Config
	backend Backend
	log     *slog.Logger

	// live ends shortly after the backend has begun to stop, and by Close: then
	// nothing waits any more.
	live context.Context //nolint:containedctx // see above
	end  context.CancelCauseFunc
	// watching is the goroutine that ends live; Close waits for it.
	watching sync.WaitGroup
	waits    waits
	glances  glances
}

// errStopping is why waiting ends when the daemon stops.
var errStopping = errors.New("the daemon stops")

// New returns an API. Close ends it; it also ends by itself shortly after the
// backend has begun to stop.
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

// watch ends all waiting when the daemon stops.
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

// Close ends all waiting. It may be called again.
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

// errStops is what a daemon that stops answers to those who hand something in.
func errStops() *problem.Problem {
	return problem.New(problem.Closed, "The daemon stops and takes nothing more: try again after a moment, it may be started again, or ask another node.")
}

// route is a guard.Route, and which parameters its query may have.
type route struct {
	guard.Route
	query []string
}

// answer answers a request: with a problem, or by itself when it returns nil.
type answer func(a *API, w http.ResponseWriter, r *http.Request, q query) *problem.Problem

// on makes a route of an answer.
func (a *API) on(method, pattern string, role guard.Role, answers answer, params ...string) route {
	h := &handler{api: a, answers: answers, params: params, verbs: verbs[pattern]}
	return route{guard.Route{Method: method, Pattern: pattern, Role: role, Handler: h}, params}
}

// streaming marks a route whose body is worked off while it comes.
func (a *API) streaming(r route) route {
	r.Streams = true
	return r
}

// following marks a route that tells of what happens as it does.
func (a *API) following(r route) route {
	r.Follows = true
	return r
}

// handler reads the query and answers.
type handler struct {
	api     *API
	answers answer
	params  []string
	verbs   map[string]string // that are no ids here; nil where every id may be
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

// Routes returns all routes, for guard.
func (a *API) Routes() []guard.Route {
	routes := a.routes()
	all := make([]guard.Route, len(routes))
	for i := range routes {
		all[i] = routes[i].Route
	}
	return all
}

func (a *API) routes() []route {
	const read, submit, admin = guard.Read, guard.Submit, guard.Admin
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

// Handler answers all routes without asking for roles, and says with a problem
// what is not there.
func (a *API) Handler() http.Handler { return Mux(a.Routes()) }
