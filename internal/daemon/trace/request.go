package trace

import (
	"net/http"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
)

// The headers that carry a context, and those that name a job or a task, in canonical
// form.
const (
	headerParent   = "Traceparent"
	headerState    = "Tracestate"
	headerJob      = "Bullpen-Job"
	headerTask     = "Bullpen-Task"
	headerLocation = "Location"
	jobLocation    = "/v1/jobs/"
)

// Routes returns routes whose requests are traced: those that have a traceparent, and
// those that submit. Submitted jobs are below the request.
func (t *Tracer) Routes(routes []access.Route) []access.Route {
	if t == nil {
		return routes
	}
	all := make([]access.Route, len(routes))
	for i, r := range routes {
		begins := r.Method == http.MethodPost && r.Role == access.Submit
		r.Handler = &requests{tracer: t, next: r.Handler, name: r.Method + " " + r.Pattern, route: r.Pattern, begins: begins, each: r.Streams || strings.HasPrefix(r.Pattern, "/v1/batches")}
		all[i] = r
	}
	return all
}

// requests traces the requests of one route.
type requests struct {
	tracer *Tracer
	next   http.Handler
	name   string
	route  string
	begins bool // starts a trace if the caller has none
	each   bool // the request submits many jobs, each with a trace of its own unless the caller names one
}

func (h *requests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, given := Parse(first(r.Header, headerParent))
	if !given && !h.begins {
		h.next.ServeHTTP(w, r)
		return
	}
	own := Context{caller.Trace, newSpanID(), caller.Sampled}
	if !given {
		own.Trace = newID()
		own.Sampled = h.tracer.sampler.takes(own.Trace)
		delete(r.Header, headerState)
	}
	// Submitted jobs take the request's header as theirs.
	if given || !h.each {
		r.Header[headerParent] = []string{own.String()}
	} else {
		delete(r.Header, headerParent)
	}
	if !own.Sampled {
		h.next.ServeHTTP(w, r)
		return
	}
	s := span{trace: own.Trace, id: own.Span, parent: caller.Span, state: first(r.Header, headerState), name: h.name, kind: kindServer, start: time.Now()}
	ended := false
	defer func() { // also after a panic of the handler, which package access answers
		h.end(&s, w, r, ended)
	}()
	h.next.ServeHTTP(w, r)
	ended = true
}

// end exports the span of an answered request.
func (h *requests) end(s *span, w http.ResponseWriter, r *http.Request, ended bool) {
	s.end = time.Now()
	s.text(keyMethod, r.Method)
	s.text(keyRoute, h.route)
	s.text(keyPool, r.PathValue("pool"))
	s.text(keyJob, jobOf(w.Header()))
	s.text(keyRun, first(w.Header(), headerTask))
	status := access.Status(w)
	if !ended {
		status = http.StatusInternalServerError
	}
	s.number(keyStatus, int64(status))
	if status >= http.StatusInternalServerError {
		s.text(keyError, http.StatusText(status))
		s.fail(http.StatusText(status))
	}
	h.tracer.exporter.put(*s)
}

// jobOf returns the job that an answer is about.
func jobOf(h http.Header) string {
	if id := first(h, headerJob); id != "" {
		return id
	}
	id, _ := strings.CutPrefix(first(h, headerLocation), jobLocation)
	if strings.Contains(id, "/") {
		return ""
	}
	return id
}

func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
