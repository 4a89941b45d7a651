package client

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

// The causes of an [*Error], for errors.Is. Package bullpen has the causes for tasks
// that never started.
var (
	// ErrUnreachable: no connection to the daemon was made, so it did not see the
	// request. Compare bullpen.ErrClosed, which a daemon returns while it shuts down.
	ErrUnreachable = errors.New("the daemon is not reachable")
	// ErrUnconfirmed: the request was sent, but its effect is not known, because the
	// connection broke or the daemon's store did not confirm.
	ErrUnconfirmed = errors.New("not confirmed")
	// ErrNotFound: the job, task or pool does not exist, or no longer exists.
	ErrNotFound = errors.New("not found")
	// ErrUnknownPool: the daemon has no pool of that name.
	ErrUnknownPool = errors.New("no such pool")
	// ErrEnded: the job has already ended.
	ErrEnded = errors.New("the job has ended")
	// ErrNotEnded: the job has not ended.
	ErrNotEnded = errors.New("the job has not ended")
	// ErrNotDead: the job is not dead.
	ErrNotDead = errors.New("the job is not dead")
	// ErrPayloadGone: the job has ended and its payload is no longer kept.
	ErrPayloadGone = errors.New("the payload is no longer kept")
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
	// ErrFull: the queue or its disk is full; nothing was enqueued.
	ErrFull = errors.New("the queue is full")
	// ErrNested: the task would wait for itself, because its parent holds the last
	// worker.
	ErrNested = errors.New("the task would wait for itself")
	// ErrIncomplete: the batch does not have the jobs that it was to be sealed with.
	ErrIncomplete = errors.New("the batch does not have these jobs")
	// ErrOverlap: the last job of the schedule has not ended.
	ErrOverlap = errors.New("the last job of the schedule has not ended")
	// ErrManaged: the schedule can only be changed in the daemon's configuration.
	ErrManaged = errors.New("it is changed in the configuration of the daemon")
	// ErrBusyID: a task with this id is already running.
	ErrBusyID = errors.New("a task with this id runs already")
	// ErrStore: the queue's store failed or does not answer.
	ErrStore = errors.New("the store of the queue does not answer")
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
)

// causes maps each cause to its errors, the most specific first.
var causes = map[string][]error{
	causeUnreachable: {ErrUnreachable},
	causeUnconfirmed: {ErrUnconfirmed},
	causeAnswer:      {ErrAnswer},
	causeTooLarge:    {ErrTooLarge},
	causeNotEnded:    {ErrNotEnded},
	"bad-request":    {ErrBadRequest},
	"unauthorized":   {ErrUnauthorized},
	"forbidden":      {ErrForbidden},
	"not-found":      {ErrNotFound},
	"unknown-pool":   {ErrUnknownPool, ErrNotFound},
	"method":         {ErrBadRequest},
	"media-type":     {ErrBadRequest},
	"ended":          {ErrEnded},
	"not-dead":       {ErrNotDead},
	"payload-gone":   {ErrPayloadGone},
	"nested":         {ErrNested, bullpen.ErrOverloaded},
	"busy-id":        {ErrBusyID},
	"incomplete":     {ErrIncomplete},
	"overlap":        {ErrOverlap},
	"managed":        {ErrManaged},
	"bad-config":     {ErrBadConfig},
	"unknown-task":   {bullpen.ErrUnknownTask},
	"refused":        {bullpen.ErrRefused},
	"overloaded":     {bullpen.ErrOverloaded},
	"rate":           {bullpen.ErrOverloaded},
	"full":           {ErrFull, bullpen.ErrOverloaded},
	"closed":         {bullpen.ErrClosed},
	"start-failed":   {bullpen.ErrStart},
	"store":          {ErrStore},
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
	if all := causes[e.Cause]; len(all) > 0 {
		b.WriteString(all[0].Error())
	} else {
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

// EndError is the error of a job that did not end well.
type EndError struct {
	ID      string
	Outcome bullpen.Outcome
	Reason  Reason
	// Attempts is the number of attempts that started; 0 means that the job never
	// ran.
	Attempts int
	// Message adds what Task does not have.
	Message string
	// Task is the error of the last attempt; nil if none started.
	Task *bullpen.TaskError
}

// Error returns the reason and the cause on one line.
func (e *EndError) Error() string {
	s := "job " + e.ID + " ended " + e.Outcome.String()
	if e.Reason != "" && e.Reason != TakenBack {
		s += " (" + string(e.Reason) + ")"
	}
	switch {
	case e.Task != nil && e.Attempts > 1:
		s += fmt.Sprintf(" after %d attempts: %v", e.Attempts, e.Task)
	case e.Task != nil:
		s += ": " + e.Task.Error()
	default: // the daemon's message may begin with the same words
		if more := strings.TrimPrefix(strings.TrimPrefix(e.Message, s), ": "); more != "" {
			s += ": " + more
		}
	}
	return s
}

// Unwrap returns the error of the last attempt.
func (e *EndError) Unwrap() error {
	if e.Task == nil {
		return nil
	}
	return e.Task
}

// Is makes errors.Is work as for a task: an EndError matches context.DeadlineExceeded
// if its outcome is Timeout and context.Canceled if it is Canceled. If no executor
// accepted the job, it matches bullpen.ErrRefused, and bullpen.ErrUnknownTask if that
// was the reason.
func (e *EndError) Is(target error) bool {
	switch target {
	case bullpen.ErrUnknownTask:
		return e.Reason == Refused && strings.Contains(e.Message, bullpen.ErrUnknownTask.Error())
	case bullpen.ErrRefused:
		return e.Reason == Refused
	default:
		return (&bullpen.TaskError{Outcome: e.Outcome}).Is(target)
	}
}
