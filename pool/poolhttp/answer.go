package poolhttp

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// answer is the http.ResponseWriter of a handler in a lane. The handler's goroutine
// writes to it and the server's ends it, perhaps before the handler does.
type answer struct {
	outer  http.ResponseWriter
	limit  int
	header http.Header // the handler's; used by its goroutine, and by the server's after its end
	state  atomic.Uint32

	// mu is held to use outer and the fields below. Who has shut the answer and then
	// has had mu knows that the handler will use outer no more.
	mu     sync.Mutex
	status int         // 0 until the handler says one
	said   bool        // by WriteHeader
	first  http.Header // header at that moment
	body   []byte      // what was written and not sent
}

// The states of an answer. Even ones have sent nothing; the later two send nothing
// more.
const (
	collecting = iota
	streaming
	dropped
	broken
)

// over reports whether the handler may write no more.
func (a *answer) over() bool { return a.state.Load() >= dropped }

func newAnswer(outer http.ResponseWriter, limit int) *answer {
	return &answer{outer: outer, limit: limit, header: outer.Header().Clone()}
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic("poolhttp: the status is no number of three digits") // as net/http does
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status != 0 || a.over() {
		return
	}
	if status < 200 && status != http.StatusSwitchingProtocols {
		maps.Copy(a.outer.Header(), a.Header())
		a.outer.WriteHeader(status)
		return
	}
	a.begin(status)
	a.said = true
}

// begin fixes status and header. mu is held.
func (a *answer) begin(status int) {
	a.status, a.first = status, a.Header().Clone()
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over() {
		return 0, http.ErrHandlerTimeout
	}
	if a.status == 0 {
		a.begin(http.StatusOK)
	}
	if a.status < 200 || a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	if a.state.Load() == collecting && len(a.body)+len(p) <= a.limit {
		a.body = append(a.body, p...)
		return len(p), nil
	}
	if err := a.send(); err != nil {
		return 0, err
	}
	return a.outer.Write(p)
}

// send sends what was collected. mu is held.
func (a *answer) send() error {
	if !a.state.CompareAndSwap(collecting, streaming) {
		if a.over() {
			return http.ErrHandlerTimeout
		}
		return nil
	}
	if a.status == 0 {
		a.begin(http.StatusOK)
	}
	header := a.outer.Header()
	clear(header)
	maps.Copy(header, a.first)
	if a.said {
		a.outer.WriteHeader(a.status) // otherwise the outer writer does what it does at the first byte
	}
	body := a.body
	a.body = nil
	if len(body) == 0 {
		return nil
	}
	_, err := a.outer.Write(body) //nolint:gosec // it is what the handler wrote
	return err
}

// Flush implements http.Flusher: from now on the answer is streamed.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is what http.ResponseController calls.
func (a *answer) FlushError() error {
	return a.control(func(c *http.ResponseController) error {
		if err := a.send(); err != nil {
			return err
		}
		return c.Flush()
	})
}

// SetReadDeadline serves http.ResponseController.
func (a *answer) SetReadDeadline(t time.Time) error {
	return a.control(func(c *http.ResponseController) error { return c.SetReadDeadline(t) })
}

// SetWriteDeadline serves http.ResponseController.
func (a *answer) SetWriteDeadline(t time.Time) error {
	return a.control(func(c *http.ResponseController) error { return c.SetWriteDeadline(t) })
}

// EnableFullDuplex serves http.ResponseController.
func (a *answer) EnableFullDuplex() error {
	return a.control((*http.ResponseController).EnableFullDuplex)
}

func (a *answer) control(do func(*http.ResponseController) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over() {
		return http.ErrHandlerTimeout
	}
	return do(http.NewResponseController(a.outer))
}

// finish sends the rest of an answer whose handler has returned.
func (a *answer) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.send()
	a.state.Store(broken) // for a goroutine that the handler has left behind
	if err != nil {
		return // the client has gone
	}
	declared := map[string]bool{}
	for _, list := range a.first["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			declared[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	for name, values := range a.header {
		if declared[name] || strings.HasPrefix(name, http.TrailerPrefix) {
			a.outer.Header()[name] = values
		}
	}
}

// shut drops what the handler has written and will write, and tells whether
// something was sent. A write to a client that does not read is broken off.
func (a *answer) shut() (sent bool) {
	sent = !a.state.CompareAndSwap(collecting, dropped)
	if sent {
		a.state.Store(broken)
		_ = http.NewResponseController(a.outer).SetWriteDeadline(time.Now()) // where it cannot be broken off it is waited for
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.body = nil
	return sent
}
