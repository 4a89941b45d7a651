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

// The causes of an [*Error], for errors.Is. Those for which a task never started
// are in package bullpen.
var (
	// ErrUnreachable says that no connection to the daemon was made: nothing was
	// asked of it. It is not the same as bullpen.ErrClosed, which a daemon says.
	ErrUnreachable = errors.New("the daemon is not reachable")
	// ErrUnconfirmed says that the daemon was asked, and that what it did is not
	// known: the connection broke, or its store did not confirm.
	ErrUnconfirmed = errors.New("not confirmed")
	// ErrNotFound says that there is no such job, task or pool, or no more.
	ErrNotFound = errors.New("not found")
	// ErrUnknownPool says that the daemon has no pool of that name.
	ErrUnknownPool = errors.New("no such pool")
	// ErrEnded says that the job has ended already.
	ErrEnded = errors.New("the job has ended")
	// ErrNotEnded says that the job has not ended.
	ErrNotEnded = errors.New("the job has not ended")
	// ErrNotDead says that the job is not among the dead.
	ErrNotDead = errors.New("the job is not dead")
	// ErrPayloadGone says that the job has ended and that its payload is no longer kept.
	ErrPayloadGone = errors.New("the payload is no longer kept")
	// ErrUnauthorized says that the token is missing or not known.
	ErrUnauthorized = errors.New("not authorized")
	// ErrForbidden says that the token, or the pool, does not allow it.
	ErrForbidden = errors.New("forbidden")
	// ErrBadRequest says that the daemon does not understand the request.
	ErrBadRequest = errors.New("bad request")
	// ErrBadConfig says that the daemon's configuration has faults.
	ErrBadConfig = errors.New("faults in the configuration")
	// ErrTooLarge says that a payload is larger than the daemon takes, or an
	// answer larger than Config.MaxResult.
	ErrTooLarge = errors.New("too large")
	// ErrFull says that the queue or its disk is full; nothing was enqueued.
	ErrFull = errors.New("the queue is full")
	// ErrNested says that the task would wait for itself: its parent holds the
	// last worker.
	ErrNested = errors.New("the task would wait for itself")
	// ErrIncomplete says that a batch does not have the jobs that it was to be sealed
	// with.
	ErrIncomplete = errors.New("the batch does not have these jobs")
	// ErrOverlap says that the last job of a schedule has not ended.
	ErrOverlap = errors.New("the last job of the schedule has not ended")
	// ErrManaged says that a schedule is changed in the daemon's configuration only.
	ErrManaged = errors.New("it is changed in the configuration of the daemon")
	// ErrBusyID says that a task with this id runs already.
	ErrBusyID = errors.New("a task with this id runs already")
	// ErrStore says that the store of the queue failed or does not answer.
	ErrStore = errors.New("the store of the queue does not answer")
	// ErrInternal says that the daemon has a fault.
	ErrInternal = errors.New("fault of the daemon")
	// ErrAnswer says that what answered does not speak as a daemon does.
	ErrAnswer = errors.New("not an answer of a Bullpen daemon")
)

// The causes that the daemon names, and those of this package.
const (
	causeUnreachable = "unreachable"
	causeUnconfirmed = "unconfirmed"
	causeAnswer      = "answer"
	causeTooLarge    = "too-large"
	causeEndedBadly  = "ended-badly"
	causeNotEnded    = "not-ended"
)

// causes says what each cause is, the narrowest first.
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

// Error is a call that the daemon did not do, or whose answer is not known.
type Error struct {
	// Status is the HTTP status; 0 where there was no answer.
	Status int
	// Cause is the word for why, as in docs/openapi.yaml; "unreachable",
	// "unconfirmed", "answer" and "not-ended" are also said by this package.
	Cause string
	// Detail says what happened and what to do.
	Detail string
	// Faults has all faults of a bad request or configuration.
	Faults []string
	// Job is the id of the job, where one is concerned.
	Job string
	// RetryAfter is when the daemon says to try again; 0 where it does not.
	RetryAfter time.Duration
	// Err is the error of the connection; nil where there was an answer.
	Err error
}

// Error gives the cause and what to do on one line.
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

// Unwrap returns the error of the connection.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the cause.
func (e *Error) Is(target error) bool {
	return slices.Contains(causes[e.Cause], target)
}

// EndError says how a job ended that did not end well.
type EndError struct {
	ID      string
	Outcome bullpen.Outcome
	Reason  Reason
	// Attempts counts those that started; 0 means that the job never ran.
	Attempts int
	// Message says more where Task does not.
	Message string
	// Task is how the last attempt ended; nil where none started.
	Task *bullpen.TaskError
}

// Error gives reason and cause on one line.
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
	default: // what the daemon says may begin with the same words
		if more := strings.TrimPrefix(strings.TrimPrefix(e.Message, s), ": "); more != "" {
			s += ": " + more
		}
	}
	return s
}

// Unwrap returns the end of the last attempt.
func (e *EndError) Unwrap() error {
	if e.Task == nil {
		return nil
	}
	return e.Task
}

// Is makes errors.Is work as for a task: with context.DeadlineExceeded for
// Timeout and context.Canceled for Canceled; and for a job that no executor took
// with bullpen.ErrRefused, or bullpen.ErrUnknownTask where that was why.
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
