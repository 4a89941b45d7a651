package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/api"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/internal/dashboard"
)

// lastAnswers bounds how long requests may take to be answered after all tasks have
// ended.
const lastAnswers = 5 * time.Second

// server serves HTTP on one listener.
type server struct {
	http     *http.Server
	listener net.Listener
	aborted  <-chan struct{} // then requests are not waited for
}

// run serves until ctx ends; then it answers the requests in progress.
func (s *server) run(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { // ends with the server; awaited below
		failed <- s.http.Serve(s.listener)
	}()
	select {
	case err := <-failed:
		return fmt.Errorf("%v: %w", s.listener.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAnswers)
	defer cancel()
	shut := make(chan error, 1)
	go func() { // ends with end; awaited below
		shut <- s.http.Shutdown(end)
	}()
	var err error
	select {
	case err = <-shut:
	case <-s.aborted:
		cancel()
		<-shut
	}
	closed := s.http.Close()
	<-failed
	if err != nil { // some answers were not read in time by their clients
		return closed
	}
	return nil
}

// early is a server that starts before the queue is opened and runs until its actor
// ends.
type early struct {
	listener net.Listener
	cancel   context.CancelFunc
	ended    chan error
}

// serveEarly starts to serve a listener.
func (d *Daemon) serveEarly(ctx context.Context, l net.Listener, h http.Handler) *early {
	s := &server{http: d.access.Server(h), listener: l, aborted: d.aborted}
	e := &early{listener: l, ended: make(chan error, 1)}
	ctx, e.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() { // ends by cancel; run and close wait for it
		e.ended <- s.run(ctx)
	}()
	return e
}

// run waits for the end of ctx, and stops serving.
func (e *early) run(ctx context.Context) error {
	select {
	case err := <-e.ended:
		e.ended <- nil
		return err
	case <-ctx.Done():
		return e.close()
	}
}

// close stops serving.
func (e *early) close() error {
	e.cancel()
	err := <-e.ended
	e.ended <- nil
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// front serves the address of the API, or that of the Lambda front: probes at once, and
// everything else when the queue is open.
type front struct {
	*early

	before http.Handler // until then: probes, and an answer that the daemon is starting
	after  http.Handler // written before open is closed
	open   chan struct{}
}

// openPatience is how long a request waits for the queue to be opened, which usually
// takes milliseconds.
const openPatience = 5 * time.Second

// openFront starts to serve the address of the API.
func (d *Daemon) openFront(ctx context.Context) error {
	l, err := d.access.Listen(ctx)
	if err != nil {
		return &OpenError{"the address of the API", taken(err, "http.listen, or --listen")}
	}
	d.front = d.serveFront(ctx, l, d.access.Wrap(d.checks(false), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d.starting().Write(w)
	})))
	return nil
}

// serveFront starts to serve a listener, by before until the queue is open.
func (d *Daemon) serveFront(ctx context.Context, l net.Listener, before http.Handler) *front {
	f := &front{open: make(chan struct{}), before: before}
	f.early = d.serveEarly(ctx, l, f)
	return f
}

// starting returns the answer to requests that the daemon cannot serve yet.
func (d *Daemon) starting() *problem.Problem {
	return problem.New(problem.Store, "the daemon is starting and waits for the queue: "+d.queueWaits())
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != livePath && r.URL.Path != readyPath {
		f.wait(r.Context())
	}
	select {
	case <-f.open:
		f.after.ServeHTTP(w, r)
	default:
		f.before.ServeHTTP(w, r)
	}
}

// wait waits, up to openPatience, until the queue is open.
func (f *front) wait(ctx context.Context) {
	select {
	case <-f.open:
		return
	default: // not open: start a timer
	}
	timer := time.NewTimer(openPatience)
	defer timer.Stop()
	select {
	case <-f.open:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// serveAPI starts to serve the API on its address, and returns a function that ends
// this.
func (d *Daemon) serveAPI() (run func(context.Context) error, err error) {
	a, h, err := d.api()
	if err != nil {
		return nil, err
	}
	d.front.after = h
	close(d.front.open)
	return func(ctx context.Context) error {
		defer a.Close()
		// The API itself answers requests that still wait when the pools have ended.
		return d.front.run(ctx)
	}, nil
}

// api returns the API, and a handler for it with the probes and the metrics behind
// package access.
func (d *Daemon) api() (*api.API, http.Handler, error) {
	s := d.config()
	a, err := api.New(api.Config{
		Backend: backend{d}, Logger: d.log, MaxPayload: s.Queue.MaxPayload, MaxBody: s.HTTP.MaxBody, MaxWait: s.HTTP.MaxWait,
	})
	if err != nil {
		return nil, nil, err
	}
	metrics, err := d.metrics()
	if err != nil {
		a.Close()
		return nil, nil, err
	}
	routes := append(d.tracer.Routes(a.Routes()), d.checks(false)...)
	routes = append(routes, access.Route{Method: http.MethodGet, Pattern: "/metrics", Role: access.Read, Handler: metrics})
	if s.Dashboard {
		ui, err := dashboard.New()
		if err != nil {
			a.Close()
			return nil, nil, err
		}
		// The page itself has no data, so it needs no role; its calls of the API do.
		routes = append(routes,
			access.Route{Method: http.MethodGet, Pattern: "/{$}", Role: access.None, Handler: http.HandlerFunc(ui.Entry)},
			access.Route{Method: http.MethodGet, Pattern: "/ui/{version}/{file}", Role: access.None, Handler: http.HandlerFunc(ui.File)},
		)
	}
	if d.probes != nil {
		d.probes.metrics.set(metrics)
	}
	return a, d.access.Wrap(routes, api.Fallback(routes)), nil
}

// probes serves probes and metrics on their own address, if there is one, until all
// other parts have ended.
type probes struct {
	*early

	metrics lateHandler
}

// openProbes starts to serve probes.
func (d *Daemon) openProbes(ctx context.Context) error {
	l, err := d.access.ListenProbes(ctx)
	if err != nil {
		return &OpenError{"the address of the probes", taken(err, "probes.listen")}
	}
	p := &probes{}
	routes := append(d.checks(true), access.Route{Method: http.MethodGet, Pattern: "/metrics", Role: access.None, Handler: &p.metrics})
	p.early = d.serveEarly(ctx, l, d.access.WrapProbes(routes, nil))
	d.probes = p
	return nil
}
