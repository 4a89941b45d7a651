package poolhttp

import (
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// answer is the http.ResponseWriter of a handler in a lane. The handler's goroutine writes
// to it. The server's goroutine ends it, perhaps before the handler returns.
type answer struct {
	outer  http.ResponseWriter
	limit  int
	header http.Header // the handler's; used by its goroutine, and by the server's after the handler's end
	state  atomic.Uint32

	// mu protects outer and the fields below. After shut has held mu, the handler no longer
	// uses outer.
	mu     sync.Mutex
	status int         // 0 until the handler sets it
	said   bool        // status was set by WriteHeader
	first  http.Header // header at that moment
	body   []byte      // written but not sent
}

// The states of an answer. In the even states, nothing has been sent. In the last two,
// nothing more will be sent.
const (
	collecting = iota
	streaming
	dropped
	broken
)

// over reports whether the handler can no longer write.
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
		panic("poolhttp: the status is not a number of three digits") // as net/http does
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

// begin sets the status and the header. mu is held.
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
		a.outer.WriteHeader(a.status) // otherwise the first Write writes the header
	}
	body := a.body
	a.body = nil
	if len(body) == 0 {
		return nil
	}
	_, err := a.outer.Write(body) //nolint:gosec // it is what the handler wrote
	return err
}

// Flush implements http.Flusher. From now on the answer is streamed.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError implements Flush of http.ResponseController.
func (a *answer) FlushError() error {
	return a.control(func(c *http.ResponseController) error {
		if err := a.send(); err != nil {
			return err
		}
		return c.Flush()
	})
}

// SetReadDeadline implements the method of http.ResponseController.
func (a *answer) SetReadDeadline(t time.Time) error {
	return a.control(func(c *http.ResponseController) error { return c.SetReadDeadline(t) })
}

// SetWriteDeadline implements the method of http.ResponseController.
func (a *answer) SetWriteDeadline(t time.Time) error {
	return a.control(func(c *http.ResponseController) error { return c.SetWriteDeadline(t) })
}

// EnableFullDuplex implements the method of http.ResponseController.
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

// finish sends the rest of the answer after the handler has returned.
func (a *answer) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.send()
	a.state.Store(broken) // for goroutines that the handler has left behind
	if err != nil {
		return // the client has disconnected
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

// shut drops what the handler has written and will write, and reports whether something was
// sent. It interrupts a write to a client that does not read.
func (a *answer) shut() (sent bool) {
	sent = !a.state.CompareAndSwap(collecting, dropped)
	if sent {
		a.state.Store(broken)
		// If this is unsupported, Lock waits for the end of the write.
		_ = http.NewResponseController(a.outer).SetWriteDeadline(time.Now())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.body = nil
	return sent
}
