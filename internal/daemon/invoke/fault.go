package invoke

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/internal/daemon/sigv4"
	"github.com/bullpen-run/bullpen/job"
)

// fault is an error of the Invoke API. SDKs make a typed error of its type.
type fault struct {
	status  int
	kind    string
	message string
	retry   time.Duration // after which the caller may try again; 0 for nothing
}

// The types of faults.
const (
	notFound   = "ResourceNotFoundException"
	tooMany    = "TooManyRequestsException"
	tooLarge   = "RequestTooLargeException"
	badContent = "InvalidRequestContentException"
	badValue   = "InvalidParameterValueException"
	service    = "ServiceException"
	denied     = "AccessDeniedException"
	recursive  = "RecursiveInvocationException"
	noSuchCall = "UnknownOperationException"
)

// write answers a request with f.
func (f *fault) write(w http.ResponseWriter) {
	body := struct {
		Type    string
		Reason  string `json:",omitempty"`
		Message string
	}{"User", "", f.message}
	if f.status >= http.StatusInternalServerError {
		body.Type = "Service"
	}
	if f.kind == tooMany {
		body.Reason = "ReservedFunctionConcurrentInvocationLimitExceeded"
	}
	text, err := json.Marshal(body)
	if err != nil {
		text = []byte("{}")
	}
	h := w.Header()
	h.Set("X-Amzn-Errortype", f.kind)
	if f.retry > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((f.retry+time.Second-1)/time.Second), 10))
	}
	send(w, f.status, text)
}

// send answers with JSON.
func send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // the client may be gone
}

// Answer writes a problem as the Invoke API does.
func Answer(w http.ResponseWriter, p *problem.Problem) {
	f := &fault{status: p.Status, kind: service, message: p.Detail, retry: p.RetryAfter}
	switch {
	case p.Status == http.StatusForbidden, p.Status == http.StatusUnauthorized:
		f.kind = denied
	case p.Status == http.StatusTooManyRequests:
		f.kind = tooMany
	case p.Status == http.StatusRequestEntityTooLarge:
		f.kind = tooLarge
	case p.Status == http.StatusNotFound, p.Status == http.StatusMethodNotAllowed:
		f.kind = noSuchCall
	case p.Status < http.StatusInternalServerError:
		f.kind = badContent
	}
	f.write(w)
}

func signatureFault(e *sigv4.Error) *fault {
	return &fault{status: e.Status, kind: e.Type, message: e.Message}
}

// faultOf returns the fault for an invocation that never started, or for an event that
// was not stored.
func faultOf(err error) *fault {
	f := &fault{status: http.StatusInternalServerError, kind: service, message: err.Error()}
	switch {
	case errors.Is(err, bullpen.ErrOverloaded), errors.Is(err, job.ErrFull):
		f.status, f.kind, f.retry = http.StatusTooManyRequests, tooMany, time.Second
	case errors.Is(err, bullpen.ErrClosed), errors.Is(err, job.ErrClosed), errors.Is(err, job.ErrStore), errors.Is(err, context.Canceled):
		f.status, f.retry = http.StatusServiceUnavailable, time.Second
	case errors.Is(err, bullpen.ErrRefused):
		f.status, f.kind = http.StatusBadRequest, badContent
	case errors.Is(err, bullpen.ErrUnknownTask):
		f.status, f.kind = http.StatusBadRequest, badValue
	}
	return f
}
