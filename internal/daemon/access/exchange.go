package access

import (
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// exchange is one request and its answer. Handlers see it as their
// ResponseWriter.
type exchange struct {
	http.ResponseWriter
	control *Control
	edge    *edge
	request *http.Request // as the server gave it
	start   time.Time     // zero if nothing logs or observes
	route   string        // the registered pattern; empty for none
	role    Role
	caller  string // name of the caller's token
	token   *token // nil for none

	status  int  // 0 before the answer begins
	swallow bool // Control has answered: discard the handler's output

	// broken is why the body was not read completely; nil for no error.
	broken atomic.Pointer[problem.Problem]
	body   body // src is nil if the request has none
}

// Unwrap gives http.ResponseController access to the underlying writer.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader begins the answer. If a limit on the body was exceeded and the handler
// answers with an error, Control's more precise answer replaces it.
func (x *exchange) WriteHeader(status int) {
	if status >= 100 && status < 200 && status != http.StatusSwitchingProtocols {
		x.ResponseWriter.WriteHeader(status)
		return
	}
	if x.status != 0 {
		return
	}
	if p := x.broken.Load(); p != nil && status >= http.StatusBadRequest {
		x.swallow = true
		x.status = p.Status
		if x.request.ProtoMajor < 2 {
			x.Header().Set("Connection", "close")
		}
		x.limitDrain()
		x.edge.answer(x.ResponseWriter, p)
		return
	}
	x.status = status
	if !x.body.streams { // streams are read while their answer is written
		x.limitDrain()
	}
	x.ResponseWriter.WriteHeader(status)
}

// limitDrain bounds how long the server waits for the rest of an unread body, which
// it does before it sends the answer. A handler that reads on sets new deadlines.
func (x *exchange) limitDrain() {
	if x.body.src == nil || x.body.ended.Load() || x.request.ProtoMajor >= 2 {
		return
	}
	x.body.until.Store(0)
	http.NewResponseController(x.ResponseWriter).SetReadDeadline(time.Now().Add(x.control.times.Drain)) //nolint:errcheck // a server without deadlines drains nothing
}

// Write writes a part of the answer.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.swallow {
		return len(p), nil
	}
	if x.request.ProtoMajor < 2 {
		return x.ResponseWriter.Write(p)
	}
	// Each part has its own deadline, so that a slow reader of a large answer is not
	// disconnected.
	written := 0
	for {
		part := p[written:min(written+streamPart, len(p))]
		n, err := x.writePart(part)
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// streamPart is how many bytes of an answer over HTTP/2 each deadline covers.
const streamPart = 64 << 10

func (x *exchange) writePart(p []byte) (int, error) {
	defer x.bound()()
	return x.ResponseWriter.Write(p)
}

// WriteString writes a part of the answer.
func (x *exchange) WriteString(s string) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.swallow {
		return len(s), nil
	}
	if x.request.ProtoMajor >= 2 {
		return x.Write([]byte(s))
	}
	return io.WriteString(x.ResponseWriter, s)
}

// FlushError sends buffered data.
func (x *exchange) FlushError() error {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	defer x.bound()()
	return http.NewResponseController(x.ResponseWriter).Flush()
}

// Flush is FlushError, for http.Flusher.
func (x *exchange) Flush() {
	x.FlushError() //nolint:errcheck // the next Write fails too
}

// bound bounds one write to an HTTP/2 stream, whose client may read the connection
// and not the stream. HTTP/1 is bounded by its connection.
func (x *exchange) bound() (unbound func()) {
	if x.request.ProtoMajor < 2 {
		return nothing
	}
	c := http.NewResponseController(x.ResponseWriter)
	c.SetWriteDeadline(time.Now().Add(x.control.times.Answer)) //nolint:errcheck // a server without deadlines has no slow clients
	return func() { c.SetWriteDeadline(time.Time{}) }          //nolint:errcheck // as above
}

func nothing() {}

// refuse answers with p.
func (x *exchange) refuse(p *problem.Problem) { x.edge.answer(x, p) }

// end is deferred, to run when the handler has returned or panicked.
func (x *exchange) end() {
	fault := recover()
	g := x.control
	if x.body.src != nil {
		g.room.give(&x.body.hold, 0, true)
	}
	if fault != nil {
		if fault == http.ErrAbortHandler { //nolint:errorlint // the server compares so, too
			panic(fault)
		}
		g.log.LogAttrs(x.request.Context(), slog.LevelError, "a handler panicked",
			slog.String("method", x.request.Method), slog.String("path", shortPath(x.request)),
			slog.Any("panic", fault), slog.String("stack", string(debug.Stack())))
		if x.status != 0 {
			panic(http.ErrAbortHandler) // an incomplete answer must not look complete
		}
		x.Header().Set("Connection", "close")
		x.refuse(problem.New(problem.Internal, "an internal error, described in the log of the daemon: please report it"))
	}
	if x.status == 0 {
		x.WriteHeader(http.StatusOK) // as the server would, but within limits
	}
	x.limitDrain()
	if x.request.ProtoMajor >= 2 {
		// The rest of the output ends with the stream.
		http.NewResponseController(x.ResponseWriter).SetWriteDeadline(time.Now().Add(g.times.Answer)) //nolint:errcheck // as in bound
	}
	x.report()
}

// report logs the request, without its query and headers, which may contain secrets.
func (x *exchange) report() {
	if g := x.control; g.observe != nil {
		g.observe(x.route, x.status, time.Since(x.start))
	}
	level := slog.LevelDebug
	if x.status >= http.StatusInternalServerError && !probe(x.request.URL.Path) {
		level = slog.LevelWarn
	} else if x.start.IsZero() || !x.control.log.Enabled(x.request.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", x.request.Method), slog.String("path", shortPath(x.request)), slog.Int("status", x.status),
		slog.String("role", x.role.String()), slog.String("remote", x.request.RemoteAddr),
	}
	if !x.start.IsZero() {
		attrs = append(attrs, slog.Duration("took", time.Since(x.start)))
	}
	if x.caller != "" {
		attrs = append(attrs, slog.String("caller", x.caller))
	}
	x.control.log.LogAttrs(x.request.Context(), level, "request", attrs...)
}

// probe reports whether a path is that of a probe, which is requested repeatedly,
// also while the daemon starts and stops.
func probe(path string) bool { return path == "/livez" || path == "/readyz" }

// shortPath returns the path of r, shortened for the log if necessary.
func shortPath(r *http.Request) string {
	const most = 200
	if p := r.URL.Path; len(p) > most {
		return p[:most] + "..."
	}
	return r.URL.Path
}

// Status returns the status that w was answered with, 200 if none was set. w is the
// writer of a handler behind Control.
func Status(w http.ResponseWriter) int {
	if x, ok := w.(*exchange); ok && x.status != 0 {
		return x.status
	}
	return http.StatusOK
}
