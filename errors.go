package bullpen

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Outcome says how an accepted task ended. The words are the same in Go, on
// the wire, in HTTP, in the SDKs, in metrics and in the dashboard; their source
// is protocol/vectors/failures.json. The numbers are those of the wire.
type Outcome uint8

// The outcomes of a task that started.
const (
	// OK is a result.
	OK Outcome = 0
	// Failed says that the handler said no.
	Failed Outcome = 1
	// Panic says that the handler threw where nothing caught it.
	Panic Outcome = 2
	// Timeout says that the deadline was reached.
	Timeout Outcome = 3
	// Canceled says that the caller or a shutdown took the task back.
	Canceled Outcome = 4
	// Crashed says that the worker died while it ran the task.
	Crashed Outcome = 5
	// Memory says that the worker hit its memory bound.
	Memory Outcome = 6
	// Output says that the result was larger than its bound.
	Output Outcome = 7
	// Protocol says that the worker spoke nonsense.
	Protocol Outcome = 8
	// Lost says that the task may have run and that its end is not known.
	Lost Outcome = 9
)

// OutcomeCount is how many outcomes there are: they are the numbers below it. A
// later version may have more, so what is stored or sent may name others.
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

// String returns the word for o.
func (o Outcome) String() string {
	if int(o) < OutcomeCount {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// ParseOutcome returns the outcome that word names.
func ParseOutcome(word string) (Outcome, error) {
	for i, name := range outcomeNames {
		if name == word {
			return Outcome(i), nil
		}
	}
	return 0, fmt.Errorf("unknown outcome %q: use one of %s", word, strings.Join(outcomeNames[:], ", "))
}

// The reasons why a task never started. Errors of executors wrap one of these,
// or the cause of the caller's context.
var (
	// ErrClosed says that the executor takes no more tasks.
	ErrClosed = errors.New("executor is closed")
	// ErrOverloaded says that the queue was full, or that a newer task took
	// this one's place in it.
	ErrOverloaded = errors.New("executor is overloaded")
	// ErrUnknownTask says that no handler has the task's name.
	ErrUnknownTask = errors.New("unknown task")
	// ErrRefused says that the task asks for what the executor cannot keep.
	ErrRefused = errors.New("task refused")
	// ErrStart says that no worker could be started.
	ErrStart = errors.New("worker did not start")
)

// TaskError says that a task started and how it ended. Fields that are not
// known are zero.
type TaskError struct {
	Outcome Outcome
	// Task and ID are the name and the id of the task.
	Task, ID string
	// Type, Message and Stack come from the handler's own error.
	Type, Message, Stack string
	// Retryable is false when the handler said that another try is of no use.
	Retryable bool
	// Worker names the worker that ran the task.
	Worker string
	// ExitCode is the exit status of a worker that exited by itself, -1 where
	// it did not.
	ExitCode int
	// Signal is the name of the signal that ended the worker, such as
	// "killed"; empty where none did.
	Signal string
	// Detail has the last lines that the worker wrote to standard error.
	Detail string
	// Err is the cause, for errors.Is; it may be nil.
	Err error
}

// Error gives the outcome and its cause on one line; Detail and Stack are left
// out.
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

// Unwrap returns the cause.
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

// OutcomeOf tells how the task ended that gave err, and whether it started at
// all: nil is OK, a [*TaskError] has its outcome, and any other error means
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

// Fail returns the error with which a handler says no: message is for people,
// and retry says whether another try may end otherwise. A plain error from a
// handler counts as retryable.
func Fail(message string, retry bool) error { return &failure{message, retry} }

type failure struct {
	message string
	retry   bool
}

func (f *failure) Error() string   { return f.message }
func (f *failure) Retryable() bool { return f.retry }

// Retryable reports whether a task that gave err may be tried again: what the
// handler said where it said something ([Fail]), true for other errors.
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
