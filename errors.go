package bullpen

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Outcome is the way in which an accepted task ended. The names are the same in Go, on the
// wire, in HTTP, in the SDKs, in metrics and in the dashboard;
// protocol/vectors/failures.json defines them. The numbers are those of the wire format.
type Outcome uint8

// The outcomes of a task that started.
const (
	// OK means that the task returned a result.
	OK Outcome = 0
	// Failed means that the handler returned an error.
	Failed Outcome = 1
	// Panic means that the handler panicked or threw an exception that it did not catch.
	Panic Outcome = 2
	// Timeout means that the deadline passed.
	Timeout Outcome = 3
	// Canceled means that the caller or a shutdown canceled the task.
	Canceled Outcome = 4
	// Crashed means that the worker died while it ran the task.
	Crashed Outcome = 5
	// Memory means that the worker reached its memory limit.
	Memory Outcome = 6
	// Output means that the result was larger than its limit.
	Output Outcome = 7
	// Protocol means that the worker violated the protocol.
	Protocol Outcome = 8
	// Lost means that the task may have run, but how it ended is unknown.
	Lost Outcome = 9
)

// OutcomeCount is the number of outcomes; their values are 0 to OutcomeCount-1. Later
// versions may add outcomes, so stored or received data may contain unknown ones.
const OutcomeCount = int(Lost) + 1

var outcomeNames = [OutcomeCount]string{
	OK: "ok", Failed: "failed", Panic: "panic", Timeout: "timeout", Canceled: "canceled",
	Crashed: "crashed", Memory: "memory", Output: "output", Protocol: "protocol", Lost: "lost",
}

// Outcomes returns all outcomes in the order of their wire numbers.
func Outcomes() []Outcome {
	all := make([]Outcome, OutcomeCount)
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// String returns the name of o.
func (o Outcome) String() string {
	if int(o) < OutcomeCount {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// ParseOutcome returns the outcome with the name word.
func ParseOutcome(word string) (Outcome, error) {
	for i, name := range outcomeNames {
		if name == word {
			return Outcome(i), nil
		}
	}
	return 0, fmt.Errorf("unknown outcome %q: use one of %s", word, strings.Join(outcomeNames[:], ", "))
}

// Reasons why a task never started. Errors of executors wrap one of these, or the cause of
// the caller's context.
var (
	// ErrClosed means that the executor accepts no more tasks.
	ErrClosed = errors.New("executor is closed")
	// ErrOverloaded means that the queue was full, or that a newer task displaced this one.
	ErrOverloaded = errors.New("executor is overloaded")
	// ErrUnknownTask means that no handler is registered under the task's name.
	ErrUnknownTask = errors.New("unknown task")
	// ErrRefused means that the task asks for something that the executor cannot guarantee.
	ErrRefused = errors.New("task refused")
	// ErrStart means that no worker could be started.
	ErrStart = errors.New("worker did not start")
)

// ErrOutput means that a result is larger than [Limits].Output. A task whose handler returns
// it, as the writer of [Stream] does, ends as [Output].
var ErrOutput = errors.New("the result is too large")

// TaskError is the error of a task that started. Unknown fields are zero.
type TaskError struct {
	Outcome Outcome
	// Task and ID are the name and the ID of the task.
	Task, ID string
	// Type, Message and Stack come from the handler's own error.
	Type, Message, Stack string
	// Retryable is false if the handler reported that a retry is pointless.
	Retryable bool
	// Worker names the worker that ran the task.
	Worker string
	// ExitCode is the exit status of a worker that exited by itself, else -1.
	ExitCode int
	// Signal is the name of the signal that killed the worker, such as "killed", or empty.
	Signal string
	// Detail holds the last lines that the worker wrote to standard error.
	Detail string
	// Err is the cause, for errors.Is. It may be nil.
	Err error
}

// Error returns the outcome and its cause on one line, without Detail and Stack.
func (e *TaskError) Error() string {
	var b strings.Builder
	b.WriteString("task")
	if e.Task != "" {
		fmt.Fprintf(&b, " %q", e.Task)
	}
	if e.ID != "" {
		b.WriteString(" " + e.ID)
	}
	b.WriteString(" " + e.Outcome.String())
	if e.Type != "" {
		b.WriteString(": " + e.Type)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	} else if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	switch {
	case e.Signal != "":
		b.WriteString(" (worker ended by signal " + e.Signal + ")")
	case e.ExitCode > 0:
		fmt.Fprintf(&b, " (worker exited with status %d)", e.ExitCode)
	}
	return b.String()
}

// Unwrap returns e.Err.
func (e *TaskError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, context.DeadlineExceeded) true for Timeout and
// errors.Is(err, context.Canceled) true for Canceled.
func (e *TaskError) Is(target error) bool {
	switch e.Outcome {
	case Timeout:
		return target == context.DeadlineExceeded
	case Canceled:
		return target == context.Canceled
	default:
		return false
	}
}

// OutcomeOf returns the outcome of a task that returned err, and reports whether the task
// started. A nil error is OK, a [*TaskError] holds its outcome, and any other error means
// that the task never started.
func OutcomeOf(err error) (o Outcome, started bool) {
	if err == nil {
		return OK, true
	}
	var te *TaskError
	if errors.As(err, &te) {
		return te.Outcome, true
	}
	return 0, false
}

// Fail returns an error for a handler to return: message is for people, and retry reports
// whether a retry may succeed. Plain errors of a handler count as retryable.
func Fail(message string, retry bool) error { return &failure{message, retry} }

type failure struct {
	message string
	retry   bool
}

func (f *failure) Error() string   { return f.message }
func (f *failure) Retryable() bool { return f.retry }

// Retryable reports whether a task that returned err may be retried. It is what the handler
// reported with [Fail], and true for all other errors.
func Retryable(err error) bool {
	var te *TaskError
	if errors.As(err, &te) {
		return te.Retryable
	}
	var r interface{ Retryable() bool }
	if errors.As(err, &r) {
		return r.Retryable()
	}
	return true
}
