package access

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// edge is the protected handler of one listener.
type edge struct {
	control *Control
	open    bool // for probes: no tokens, no check of names, read-only
	signed  bool // handlers identify their callers, instead of tokens
	secret  bool // callers need a token or a key
	answer  func(http.ResponseWriter, *problem.Problem)
	mux     *http.ServeMux
}

// Wrap returns a handler that serves routes within the limits of g. fallback handles
// requests that match no route, from any caller that may read, and must return only
// errors. If nil, such requests are answered with a problem.
func (g *Control) Wrap(routes []Route, fallback http.Handler) http.Handler {
	return g.wrap(&edge{secret: g.tokens != nil}, routes, fallback)
}

// WrapLambda returns a handler for the listener of the Lambda front. Its handlers
// identify their callers, who have the role Submit. answer writes the problems of
// requests that the daemon refuses.
func (g *Control) WrapLambda(routes []Route, fallback http.Handler, answer func(http.ResponseWriter, *problem.Problem)) http.Handler {
	return g.wrap(&edge{signed: true, secret: g.lambda.Keys != "", answer: answer}, routes, fallback)
}

// WrapProbes returns a handler for the listener of probes. Read-only routes are open
// to all callers; other routes are refused.
func (g *Control) WrapProbes(routes []Route, fallback http.Handler) http.Handler {
	return g.wrap(&edge{open: true}, routes, fallback)
}

func (g *Control) wrap(e *edge, routes []Route, fallback http.Handler) http.Handler {
	e.control, e.mux = g, http.NewServeMux()
	if e.answer == nil {
		e.answer = func(w http.ResponseWriter, p *problem.Problem) { p.Write(w) }
	}
	for _, r := range routes {
		e.mux.Handle(strings.TrimSpace(r.Method+" "+r.Pattern), e.route(r))
	}
	if fallback == nil {
		fallback = http.HandlerFunc(notFound)
	}
	e.mux.Handle("/", e.route(Route{Role: Read, Handler: fallback}))
	return e
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	problem.New(problem.NotFound, "there is nothing under this path and method: see the documentation of the API").Write(w)
}

// ServeHTTP checks the caller and its limits before any other code handles the
// request.
func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := e.control
	x := &exchange{ResponseWriter: w, control: g, edge: e, request: r}
	if g.observe != nil || g.log.Enabled(r.Context(), slog.LevelDebug) {
		x.start = time.Now()
	}
	defer x.end() //nolint:contextcheck // it takes that of the request
	if r.Body != nil && r.Body != http.NoBody {
		x.body.src, x.body.owner = r.Body, x
		x.body.announced, x.body.most = r.ContentLength, g.http.MaxBody
	}
	if p := e.admit(x, r); p != nil {
		x.refuse(p)
		return
	}
	r = r.WithContext(WithRole(r.Context(), x.role))
	if x.body.src != nil {
		r.Body = &x.body
	}
	e.mux.ServeHTTP(x, r)
}

// admit determines the role of the caller, or why it has none.
func (e *edge) admit(x *exchange, r *http.Request) *problem.Problem {
	if e.open {
		x.role, x.body.most = Read, 0
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return problem.New(problem.Forbidden, "this address is for probes, which only read: use the address of the API")
		}
		return nil
	}
	g := e.control
	if says := g.checkHost(r.Host, e.secret); says != "" {
		return problem.New(problem.Forbidden, says)
	}
	if says := g.checkOrigin(r, e.secret); says != "" {
		return problem.New(problem.Forbidden, says)
	}
	// A page of the same origin may be shown; other origins cannot read the answer.
	if r.Header["Sec-Fetch-Site"] != nil || r.Header["Origin"] != nil {
		h := x.Header()
		h["Cross-Origin-Resource-Policy"] = []string{"same-origin"}
		h["X-Frame-Options"] = []string{"DENY"}
	}
	if e.signed {
		x.role = Submit
	} else if g.tokens == nil {
		x.role = Admin
	} else if p := g.identify(x, r); p != nil {
		return p
	}
	if g.rates == nil || probe(r.URL.Path) {
		return nil
	}
	if wait, ok := g.rates.take(x.client(), time.Now()); !ok {
		p := problem.New(problem.Rate, fmt.Sprintf("more than %g requests per second (http.rate): send fewer, or send many jobs in one bulk request", g.http.Rate))
		p.RetryAfter = max(wait, time.Second)
		return p
	}
	return nil
}

// client returns the client of the request: its token, or else its address.
func (x *exchange) client() client {
	if x.caller != "" {
		return client{name: x.caller}
	}
	return client{addr: clientAddress(x.request.RemoteAddr)}
}

// identify finds the caller's token. A caller without one may call what needs no
// role.
func (g *Control) identify(x *exchange, r *http.Request) *problem.Problem {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return nil
	}
	who := client{addr: clientAddress(r.RemoteAddr)}
	now := time.Now()
	var found *token
	if scheme, secret, ok := strings.Cut(values[0], " "); ok && len(values) == 1 && strings.EqualFold(scheme, "Bearer") {
		found = g.tokens.find(strings.TrimLeft(secret, " "))
	}
	// After too many failures an address is locked for wrong tokens only: many
	// clients can share one address, and one of them must not lock out the others.
	// Guessing stays hopeless, because tokens have at least 16 characters.
	if found != nil {
		x.role, x.caller, x.token = found.role, found.name, found
		return nil
	}
	wait, shut := g.failures.spent(who, now)
	if shut {
		p := problem.New(problem.Rate, "too many requests with wrong tokens came from this address: wait, and then use a valid token")
		p.RetryAfter = max(wait, time.Second)
		return p
	}
	g.failures.take(who, now)
	if _, shut := g.failures.spent(who, now); shut {
		g.log.Warn("an address has sent too many wrong tokens and is blocked for a while", "address", who.addr)
	}
	x.Header().Set("WWW-Authenticate", `Bearer realm="bullpen", error="invalid_token"`)
	return problem.New(problem.Unauthorized, "the header Authorization has no valid token: send \"Authorization: Bearer TOKEN\" with a token of the file http.tokens")
}

// route returns the handler of a route, which checks the role.
func (e *edge) route(r Route) http.Handler {
	name := strings.TrimSpace(r.Method + " " + r.Pattern)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x, ok := w.(*exchange)
		if !ok { // the mux passes on the writer that it was given
			problem.New(problem.Internal, "the request did not come through access.Control").Write(w)
			return
		}
		x.route = name
		if x.role < r.Role {
			x.refuse(lacking(x, r.Role))
			return
		}
		if !x.mayPass(req.Context(), &r) {
			x.refuse(noPlace(x))
			return
		}
		if r.Follows {
			who := x.client()
			if full := e.control.streams.enter(who); full != "" {
				x.refuse(problem.New(problem.Rate, "the maximum number of event streams ("+full+") is already open: close some, or try again later"))
				return
			}
			defer e.control.streams.leave(who)
		}
		if r.Streams {
			x.body.streams, x.body.most = true, 1<<62
		}
		if x.body.src != nil && x.body.announced > x.body.most {
			x.refuse(largeProblem(x.body.most))
			return
		}
		if r.Follows && x.token != nil {
			ctx, stop := e.control.tokens.follow(req.Context(), x.token, r.Role)
			defer stop()
			req = req.WithContext(ctx)
		}
		r.Handler.ServeHTTP(x, req)
	})
}

// lacking returns the problem for a missing role.
func lacking(x *exchange, need Role) *problem.Problem {
	if x.caller == "" && x.control.tokens != nil {
		x.Header().Set("WWW-Authenticate", `Bearer realm="bullpen"`)
		return problem.New(problem.Unauthorized, "a token with the role "+need.String()+" is needed: send the header \"Authorization: Bearer TOKEN\"")
	}
	if x.control.tokens != nil {
		x.Header().Set("WWW-Authenticate", `Bearer realm="bullpen", error="insufficient_scope", scope="`+need.String()+`"`)
	}
	return problem.New(problem.Forbidden, "this needs the role "+need.String()+", and the caller has "+x.role.String()+": use another token")
}
