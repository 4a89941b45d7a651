package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/api"
	"github.com/bullpen-run/bullpen/internal/daemon/guard"
	"github.com/bullpen-run/bullpen/internal/dashboard"
)

// lastAnswers is how long requests may take to be answered once nothing runs any
// more.
const lastAnswers = 5 * time.Second

// server serves HTTP on one listener, as an actor.
type server struct {
	http     *http.Server
	listener net.Listener
	ended    func()          // called at the end; nil for nothing
	aborted  <-chan struct{} // then nobody is waited for
}

// run serves until ctx ends; then the requests under way are answered.
func (s *server) run(ctx context.Context) error {
	if s.ended != nil {
		defer s.ended()
	}
	failed := make(chan error, 1)
	go func() { // ends with the server; waited for below
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
	go func() { // ends with end at the latest; waited for below
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
	if err != nil { // some were not answered in time: their readers do not read
		return closed
	}
	return nil
}

// server joins the API, the probes and the metrics behind the guard.
func (d *Daemon) server() (*server, error) {
	s := d.config()
	a, err := api.New(api.Config{
		Backend: backend{d}, Logger: d.log, MaxPayload: s.Queue.MaxPayload, MaxBody: s.HTTP.MaxBody, MaxWait: s.HTTP.MaxWait,
	})
	if err != nil {
		return nil, err
	}
	metrics, err := d.metrics()
	if err != nil {
		a.Close()
		return nil, err
	}
	routes := append(d.tracer.Routes(a.Routes()), d.checks(false)...)
	routes = append(routes, guard.Route{Method: http.MethodGet, Pattern: "/metrics", Role: guard.Read, Handler: metrics})
	if s.Dashboard {
		ui, err := dashboard.New()
		if err != nil {
			a.Close()
			return nil, err
		}
		// It tells nothing by itself, so that it needs no role: what it asks the API for
		// does.
		routes = append(routes,
			guard.Route{Method: http.MethodGet, Pattern: "/{$}", Role: guard.None, Handler: http.HandlerFunc(ui.Entry)},
			guard.Route{Method: http.MethodGet, Pattern: "/ui/{version}/{file}", Role: guard.None, Handler: http.HandlerFunc(ui.File)},
		)
	}
	if d.probes != nil {
		d.probes.serveMetrics(metrics)
	}
	h := d.guard.Wrap(routes, api.Fallback(routes))
	// The API answers by itself who still waits when the pools have ended.
	return &server{http: d.guard.Server(h), listener: d.listener, aborted: d.aborted, ended: a.Close}, nil
}

// probes serves what orchestrators and Prometheus ask, from before the queue is
// opened until after all else has ended.
type probes struct {
	server   *server
	listener net.Listener
	cancel   context.CancelFunc
	ended    chan error
	metrics  lateHandler
}

// openProbes begins to serve probes.
func (d *Daemon) openProbes(ctx context.Context) error {
	l, err := d.guard.ListenProbes(ctx)
	if err != nil {
		return &OpenError{"the address of the probes", taken(err, "probes.listen")}
	}
	p := &probes{listener: l, ended: make(chan error, 1)}
	routes := append(d.checks(true), guard.Route{Method: http.MethodGet, Pattern: "/metrics", Role: guard.None, Handler: &p.metrics})
	p.server = &server{http: d.guard.Server(d.guard.WrapProbes(routes, nil)), listener: l, aborted: d.aborted}
	var own context.Context
	own, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() { // ends by cancel; run and close wait for it
		p.ended <- p.server.run(own)
	}()
	d.probes = p
	return nil
}

// run waits for the end of the probes.
func (p *probes) run(ctx context.Context) error {
	select {
	case err := <-p.ended:
		p.ended <- nil
		return err
	case <-ctx.Done():
		return p.close()
	}
}

// close ends the probes.
func (p *probes) close() error {
	p.cancel()
	err := <-p.ended
	p.ended <- nil
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (p *probes) serveMetrics(h http.Handler) { p.metrics.set(h) }
