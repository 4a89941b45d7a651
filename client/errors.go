package client

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// The causes of an [*Error], for errors.Is. Package job has those of calls that name a job,
// a batch or a schedule, and package bullpen those of tasks that never started.
var (
	// ErrUnreachable: no connection to the daemon was made, so it did not see the
	// request. Compare bullpen.ErrClosed, which a daemon returns while it shuts down.
	ErrUnreachable = errors.New("the daemon is not reachable")
	// ErrUnknownPool: the daemon has no pool of that name.
	ErrUnknownPool = errors.New("no such pool")
	// ErrNotDead: the job is not dead.
	ErrNotDead = errors.New("the job is not dead")
	// ErrUnauthorized: the token is missing or unknown.
	ErrUnauthorized = errors.New("not authorized")
	// ErrForbidden: the token's role, or the pool, does not allow the call.
	ErrForbidden = errors.New("forbidden")
	// ErrBadRequest: the daemon does not understand the request.
	ErrBadRequest = errors.New("bad request")
	// ErrBadConfig: the daemon's configuration has faults.
	ErrBadConfig = errors.New("faults in the configuration")
	// ErrTooLarge: the payload is larger than the daemon accepts, or the answer is
	// larger than Config.MaxResult.
	ErrTooLarge = errors.New("too large")
	// ErrNested: the task would wait for itself, because its parent holds the last
	// worker.
	ErrNested = errors.New("the task would wait for itself")
	// ErrManaged: the schedule can only be changed in the daemon's configuration.
	ErrManaged = errors.New("it can only be changed in the configuration of the daemon")
	// ErrBusyID: a task with this id is already running.
	ErrBusyID = errors.New("a task with this id is already running")
	// ErrInternal: the daemon has an internal fault.
	ErrInternal = errors.New("fault of the daemon")
	// ErrAnswer: the answer does not come from a Bullpen daemon.
	ErrAnswer = errors.New("not an answer of a Bullpen daemon")
)

// The causes that the daemon returns, and those of this package.
const (
	causeUnreachable = "unreachable"
	causeUnconfirmed = "unconfirmed"
	causeAnswer      = "answer"
	causeTooLarge    = "too-large"
	causeEndedBadly  = "ended-badly"
	causeNotEnded    = "not-ended"
	causeNotFound    = "not-found" // of a job, a schedule or a page
	causeBadRequest  = "bad-request"
)

// causes maps each cause to its errors, the most specific first.
var causes = map[string][]error{
	causeUnreachable: {ErrUnreachable},
	causeUnconfirmed: {job.ErrUnconfirmed},
	causeAnswer:      {ErrAnswer},
	causeTooLarge:    {ErrTooLarge},
	causeNotEnded:    {job.ErrNotEnded},
	causeBadRequest:  {ErrBadRequest},
	"unauthorized":   {ErrUnauthorized},
	"forbidden":      {ErrForbidden},
	causeNotFound:    {job.ErrNotFound},
	"unknown-pool":   {ErrUnknownPool, job.ErrNotFound},
	"method":         {ErrBadRequest},
	"media-type":     {ErrBadRequest},
	"ended":          {job.ErrEnded},
	"not-dead":       {ErrNotDead},
	"payload-gone":   {job.ErrPayloadGone},
	"nested":         {ErrNested, bullpen.ErrOverloaded},
	"busy-id":        {ErrBusyID},
	"incomplete":     {job.ErrIncomplete},
	"overlap":        {job.ErrOverlap},
	"managed":        {ErrManaged},
	"bad-config":     {ErrBadConfig},
	"unknown-task":   {bullpen.ErrUnknownTask},
	"refused":        {bullpen.ErrRefused},
	"overloaded":     {bullpen.ErrOverloaded},
	"rate":           {bullpen.ErrOverloaded},
	"full":           {job.ErrFull, bullpen.ErrOverloaded},
	"closed":         {bullpen.ErrClosed},
	"start-failed":   {bullpen.ErrStart},
	"store":          {job.ErrStore},
	"internal":       {ErrInternal},
}

// Error is the error of a call that the daemon did not carry out, or whose answer is
// not known.
type Error struct {
	// Status is the HTTP status; 0 if there was no answer.
	Status int
	// Cause is the machine-readable cause, as in docs/openapi.yaml. This package adds
	// "unreachable", "unconfirmed", "answer" and "not-ended".
	Cause string
	// Detail is what happened and what to do.
	Detail string
	// Faults lists all faults of a bad request or configuration.
	Faults []string
	// Job is the id of the job, if the call is about one.
	Job string
	// RetryAfter is the delay that the daemon asks for before a retry; 0 if it asks
	// for none.
	RetryAfter time.Duration
	// Err is the connection's error; nil if there was an answer.
	Err error
}

// Error returns the cause and what to do, on one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("bullpen daemon: ")
	switch all := causes[e.Cause]; {
	case e.Cause == causeNotFound:
		b.WriteString("not found")
	case len(all) > 0:
		b.WriteString(all[0].Error())
	default:
		b.WriteString(e.Cause)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if len(e.Faults) > 0 {
		b.WriteString(": " + strings.Join(e.Faults, "; "))
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Status != 0 {
		b.WriteString(" (status " + strconv.Itoa(e.Status) + ")")
	}
	return b.String()
}

// Unwrap returns the connection's error.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the cause of e.
func (e *Error) Is(target error) bool {
	return slices.Contains(causes[e.Cause], target)
}
