package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
)

// call is one request to the daemon.
type call struct {
	method string
	// path is already escaped.
	path, query string
	// header replaces the template's header; nil keeps the template's.
	header http.Header
	// body is nil for none.
	body *source
	// wait is how long the daemon may wait before it answers.
	wait time.Duration
	// long marks a call of unknown duration: only ctx bounds it.
	long bool
	// again marks an idempotent call: sending it twice does no harm.
	again bool
}

// answer is the daemon's complete answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// errNoAnswer is the cause of a context that ends because the daemon took too long.
var errNoAnswer = errors.New("no answer in time: raise Config.Timeout, or check whether the daemon is overloaded")

// do sends a call and retries it where that is safe. An answer with an error status
// is returned as an error.
func (c *Client) do(ctx context.Context, r call) (*answer, error) {
	defer r.body.release()
	unsure := false // an earlier try may have succeeded
	for n := 0; ; n++ {
		a, err := c.once(ctx, r)
		var e *Error
		if err == nil || !errors.As(err, &e) {
			return a, err
		}
		if n < c.config.Retries && e.repeatable(r.again) && c.pause(ctx, nil, n, e) == nil {
			unsure = unsure || e.uncertain()
			continue
		}
		if r.method == http.MethodGet && ctx.Err() != nil {
			return nil, fmt.Errorf("asking the daemon for %s: %w", r.path, context.Cause(ctx))
		}
		return nil, e.asUnsure(unsure && r.method != http.MethodGet)
	}
}

// asUnsure turns e into an unconfirmed error if an earlier try of the call may have
// succeeded.
func (e *Error) asUnsure(unsure bool) *Error {
	if !unsure || e.uncertain() {
		return e
	}
	return &Error{Cause: causeUnconfirmed, Detail: "an earlier try may have succeeded", Job: e.Job, Err: e}
}

// repeatable reports whether the call may be repeated: it certainly did not take
// effect, or repeating it does no harm.
func (e *Error) repeatable(again bool) bool {
	switch e.Cause {
	case causeUnreachable:
		return !hopeless(e.Err)
	case "overloaded", "rate", "full", "closed", "start-failed":
		return true
	case causeUnconfirmed, "store":
		return again
	case causeAnswer:
		return again && (e.Status == 0 || e.Status == http.StatusBadGateway || e.Status == http.StatusServiceUnavailable || e.Status == http.StatusGatewayTimeout)
	default:
		return false
	}
}

// hopeless reports whether the next connection would fail too: the server's
// certificate is not trusted, or it does not speak TLS.
func hopeless(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert)
}

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// pause waits before the call is repeated after failure n. It returns an error if ctx
// would end first or stop is closed.
func (c *Client) pause(ctx context.Context, stop <-chan struct{}, n int, e *Error) error {
	d := min(firstPause<<min(n, 16), lastPause)
	d = d/2 + rand.N(d/2+1)
	if e.RetryAfter > 0 {
		d = e.RetryAfter + rand.N(e.RetryAfter/4+1) // never before RetryAfter, and spread so that clients do not come back all at once
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < d {
		return context.DeadlineExceeded
	}
	c.log.LogAttrs(ctx, slog.LevelInfo, "asking the daemon again", slog.Duration("after", d), slog.Any("error", e))
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-stop:
		return bullpen.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// once sends a call once and reads the answer.
func (c *Client) once(ctx context.Context, r call) (*answer, error) {
	sent := &sending{}
	if r.long {
		return c.exchange(ctx, ctx, r, sent)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, r.wait+c.config.Timeout, errNoAnswer)
	defer cancel()
	return c.exchange(ctx, bounded, r, sent)
}

// exchange sends one request within the context bounded and reads the answer. caller
// is the context of the caller, for error messages.
func (c *Client) exchange(caller, bounded context.Context, r call, sent *sending) (*answer, error) {
	a, err := c.ask(bounded, r, sent)
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, err
	case err != nil:
		return nil, broken(caller, bounded, sent, err)
	case a.status >= http.StatusMultipleChoices:
		return nil, readProblem(a.status, a.header, a.body)
	default:
		return a, nil
	}
}

// ask sends one request and reads its answer, whatever the status.
func (c *Client) ask(ctx context.Context, r call, sent *sending) (*answer, error) {
	if c.fits(&r) {
		return c.direct(ctx, r, sent)
	}
	response, err := c.send(ctx, r, sent)
	if err != nil {
		return nil, err
	}
	body, err := readBody(response, c.config.MaxResult)
	if err != nil {
		return nil, err
	}
	return &answer{response.StatusCode, response.Header, body}, nil
}

// broken returns the error of a request without a complete answer.
func broken(caller, bounded context.Context, sent *sending, err error) error {
	e := &Error{Cause: causeUnconfirmed, Err: err}
	if !sent.begun.Load() {
		e.Cause = causeUnreachable
	}
	switch {
	case caller.Err() != nil:
		e.Err = context.Cause(caller)
	case bounded.Err() != nil:
		e.Err = context.Cause(bounded)
	}
	return e
}

// sending records whether a request has got a connection, after which the daemon may
// have seen it.
type sending struct {
	trace httptrace.ClientTrace
	begun atomic.Bool
}

func (s *sending) gotConn(httptrace.GotConnInfo) { s.begun.Store(true) }

// send sends one request. The caller reads and closes the answer's body.
func (c *Client) send(ctx context.Context, r call, sent *sending) (*http.Response, error) {
	sent.trace.GotConn = sent.gotConn
	request := c.template.WithContext(httptrace.WithClientTrace(ctx, &sent.trace))
	request.Method = r.method
	to := *c.base
	to.RawQuery = r.query
	if err := setPath(&to, r.path); err != nil {
		return nil, err
	}
	request.URL = &to
	if r.header != nil {
		request.Header = r.header
	}
	if r.body != nil {
		request.ContentLength = int64(r.body.size)
		request.Body = http.NoBody
		if r.body.size > 0 {
			request.Body = r.body.reader()
			request.GetBody = func() (io.ReadCloser, error) { return r.body.reader(), nil }
		}
	}
	return c.transport.RoundTrip(request)
}

// setPath appends an escaped path to the path of the base URL.
func setPath(to *url.URL, path string) error {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return err
	}
	if plain != path {
		to.RawPath = to.EscapedPath() + path
	}
	to.Path += plain
	return nil
}

// header returns a copy of the template's header.
func (c *Client) header() http.Header { return c.template.Header.Clone() }

// readBody reads an answer to its end, so that its connection can be reused.
func readBody(response *http.Response, most int64) ([]byte, error) {
	defer response.Body.Close()
	tooLarge := &Error{
		Status: response.StatusCode, Cause: causeTooLarge, Job: first(response.Header, "Bullpen-Job"),
		Detail: fmt.Sprintf("the answer has more than %d bytes: raise Config.MaxResult", most),
	}
	if n := response.ContentLength; n >= 0 {
		if n > most {
			return nil, tooLarge
		}
		body := make([]byte, n)
		_, err := io.ReadFull(response.Body, body)
		return body, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err == nil && int64(len(body)) > most {
		return nil, tooLarge
	}
	return body, err
}

func (c *Client) getJSON(ctx context.Context, path, query string, into any) error {
	return c.callJSON(ctx, call{method: http.MethodGet, path: path, query: query, again: true}, nil, into)
}

// callJSON sends body as JSON, unless it is nil, and decodes the JSON answer into
// into, unless that is nil.
func (c *Client) callJSON(ctx context.Context, r call, body, into any) error {
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r.body = newSource(text)
		r.header = c.header()
		r.header["Content-Type"] = []string{"application/json"}
	} else if r.method == http.MethodPost {
		r.body = newSource(nil)
	}
	a, err := c.do(ctx, r)
	if err != nil || into == nil {
		return err
	}
	return a.json(into)
}

func (a *answer) json(into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		e := foreignAnswer(a.status, a.header, bytes.TrimSpace(a.body))
		e.Err = err
		return e
	}
	return nil
}

func poolPath(pool, verb string) string { return "/v1/pools/" + escape(pool) + verb }
func jobPath(id, verb string) string    { return "/v1/jobs/" + escape(id) + verb }

// escape escapes one segment of a path. It also escapes dots-only segments, which
// would otherwise be resolved as relative paths.
func escape(part string) string {
	switch part {
	case "", ".", "..":
		return "%00" // an empty name; the daemon rejects it
	}
	return url.PathEscape(part)
}
