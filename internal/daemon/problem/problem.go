// Package problem has the daemon's errors over HTTP, in the form of RFC 9457, with
// the vocabulary of outcomes.
package problem

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/bullpen-run/bullpen/internal/jsonvalue"
)

// Cause is the machine-readable cause.
type Cause string

// The causes. Their statuses are in the table below, and in docs/openapi.yaml.
const (
	BadRequest   Cause = "bad-request"
	Unauthorized Cause = "unauthorized"
	Forbidden    Cause = "forbidden"
	NotFound     Cause = "not-found"
	UnknownPool  Cause = "unknown-pool"
	Method       Cause = "method"
	Ended        Cause = "ended"
	NotEnded     Cause = "not-ended"
	NotDead      Cause = "not-dead"
	Nested       Cause = "nested"
	BusyID       Cause = "busy-id"
	// PayloadGone: a job has ended and its payload is no longer kept.
	PayloadGone Cause = "payload-gone"
	// Incomplete: a batch does not have the jobs that it was to be sealed with.
	Incomplete Cause = "incomplete"
	// Overlap: the last job of a schedule has not ended. Managed: the schedule can
	// only be changed in the configuration.
	Overlap   Cause = "overlap"
	Managed   Cause = "managed"
	TooLarge  Cause = "too-large"
	MediaType Cause = "media-type"
	// EndedBadly: a task or job did not end well.
	EndedBadly Cause = "ended-badly"
	BadConfig  Cause = "bad-config"
	// UnknownTask and Refused are for ephemeral tasks that never started.
	UnknownTask Cause = "unknown-task"
	Refused     Cause = "refused"
	Overloaded  Cause = "overloaded"
	Full        Cause = "full"
	Rate        Cause = "rate"
	Closed      Cause = "closed"
	StartFailed Cause = "start-failed"
	Store       Cause = "store"
	Unconfirmed Cause = "unconfirmed"
	Internal    Cause = "internal"
)

// kind is what all problems of one cause have in common.
type kind struct {
	cause  Cause
	status int
	title  string
	retry  time.Duration // for Retry-After; 0 is none
}

const (
	soon  = time.Second
	later = 5 * time.Second
)

// kinds is the table of causes.
var kinds = [...]kind{
	{BadRequest, http.StatusBadRequest, "The request is not valid", 0},
	{Unauthorized, http.StatusUnauthorized, "A token is needed", 0},
	{Forbidden, http.StatusForbidden, "This is not allowed", 0},
	{NotFound, http.StatusNotFound, "Not found", 0},
	{UnknownPool, http.StatusNotFound, "There is no such pool", 0},
	{Method, http.StatusMethodNotAllowed, "The method is not allowed here", 0},
	{Ended, http.StatusConflict, "The job has ended", 0},
	{NotEnded, http.StatusConflict, "The job has not ended", 0},
	{NotDead, http.StatusConflict, "The job is not dead", 0},
	{Nested, http.StatusConflict, "The task would wait for itself", 0},
	{BusyID, http.StatusConflict, "A task with this id is already running", 0},
	{Incomplete, http.StatusConflict, "The batch does not have these jobs", 0},
	{Overlap, http.StatusConflict, "The last job of the schedule has not ended", 0},
	{Managed, http.StatusConflict, "It is managed by the configuration", 0},
	{PayloadGone, http.StatusGone, "The payload is no longer kept", 0},
	{TooLarge, http.StatusRequestEntityTooLarge, "The body is too large", 0},
	{MediaType, http.StatusUnsupportedMediaType, "The body has the wrong media type", 0},
	{EndedBadly, http.StatusUnprocessableEntity, "The task ended badly", 0},
	{BadConfig, http.StatusUnprocessableEntity, "The configuration is not valid", 0},
	{UnknownTask, http.StatusUnprocessableEntity, "The workers have no handler for the task", 0},
	{Refused, http.StatusUnprocessableEntity, "The pool cannot enforce a limit of the task", 0},
	{Overloaded, http.StatusTooManyRequests, "The pool has no room now", soon},
	{Full, http.StatusTooManyRequests, "The queue is full", later},
	{Rate, http.StatusTooManyRequests, "Too many requests", soon},
	{Closed, http.StatusServiceUnavailable, "The daemon accepts no more work", later},
	{StartFailed, http.StatusServiceUnavailable, "The workers do not start", later},
	{Store, http.StatusServiceUnavailable, "The store does not answer", later},
	{Unconfirmed, http.StatusServiceUnavailable, "It is unknown whether the job was stored", soon},
	{Internal, http.StatusInternalServerError, "Internal error", 0},
}

// Causes returns all causes.
func Causes() []Cause {
	all := make([]Cause, len(kinds))
	for i := range kinds {
		all[i] = kinds[i].cause
	}
	return all
}

// kindOf returns the row of a cause, or that of Internal if there is none.
func kindOf(c Cause) *kind {
	for i := range kinds {
		if kinds[i].cause == c {
			return &kinds[i]
		}
	}
	return &kinds[len(kinds)-1]
}

// Status returns the HTTP status for this cause.
func (c Cause) Status() int { return kindOf(c).status }

// Problem is an error. Its fields are those of RFC 9457, and extensions.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail is what is wrong and what to do.
	Detail string `json:"detail,omitempty"`
	Cause  Cause  `json:"cause"`
	// Outcome is set for a task that started, or a job that has ended.
	Outcome  string `json:"outcome,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Job      string `json:"job,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	// Failure is how the task, or the last attempt of the job, ended.
	Failure *jsonvalue.Failure `json:"failure,omitempty"`
	// Faults lists all faults of a request or a configuration.
	Faults []string `json:"faults,omitempty"`

	// RetryAfter is when the caller may try again. If zero, causes that need one have
	// a default.
	RetryAfter time.Duration `json:"-"`
}

// New returns a problem with the status and title of its cause. detail is what is
// wrong and what to do.
func New(c Cause, detail string) *Problem {
	k := kindOf(c)
	return &Problem{
		Type: "urn:bullpen:problem:" + string(k.cause), Title: k.title, Status: k.status, Detail: detail,
		Cause: k.cause, RetryAfter: k.retry,
	}
}

// Write answers a request with p.
func (p *Problem) Write(w http.ResponseWriter) {
	body := p.JSON()
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(p.Status)
	w.Write(body) //nolint:errcheck // the client may be gone
}

// JSON returns p as JSON.
func (p *Problem) JSON() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(p); err != nil {
		return []byte(`{"type":"urn:bullpen:problem:internal","title":"Internal error","status":500,"cause":"internal"}`)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
