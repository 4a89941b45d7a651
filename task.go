package bullpen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Task is one unit of work. It is passed by value; executors do not change it
// and do not keep Payload or Meta after its outcome has been delivered, so the
// caller must leave both alone until then.
type Task struct {
	// ID names this one task in logs, errors and events. It may be empty; no
	// executor makes one on its hot path. From the queue it is the job's id.
	ID string
	// Name is the kind of the task: it selects the handler in the worker.
	Name string
	// Payload is the input, opaque to Bullpen.
	Payload []byte
	// Meta travels with the task to its handler: traceparent, attempt, content
	// type, keys of the user's own. Nil costs nothing. Keys that begin with
	// "bullpen." are Bullpen's.
	Meta map[string]string
	// Limits bound this task. Zero fields mean the executor's own.
	Limits Limits
	// Observer is nil, or where progress and log lines of this task go.
	Observer Observer
}

// Limits bound what one task may use. A zero field means "the executor's own
// bound", and at the executor "no bound". An executor that cannot keep a limit
// refuses the task ([ErrRefused]); it never ignores the limit.
type Limits struct {
	// Timeout is run time, counted from the moment the handler starts. The
	// deadline of a task's context is total time, waiting included.
	Timeout time.Duration
	// Memory is the most memory the worker may hold, in bytes.
	Memory int64
	// CPU is the most processors' worth of time, 1 being one full processor.
	CPU float64
	// Output is the largest result, in bytes.
	Output int
}

// Check reports every fault of l at once, nil when there is none.
func (l Limits) Check() error {
	var errs []error
	if l.Timeout < 0 {
		errs = append(errs, fmt.Errorf("limit Timeout is %v: use a positive duration, or 0 for none", l.Timeout))
	}
	if l.Memory < 0 {
		errs = append(errs, fmt.Errorf("limit Memory is %d: use a positive number of bytes, or 0 for none", l.Memory))
	}
	if !(l.CPU >= 0 && l.CPU <= math.MaxFloat64) {
		errs = append(errs, fmt.Errorf("limit CPU is %g: use a positive number of processors, or 0 for none", l.CPU))
	}
	if l.Output < 0 {
		errs = append(errs, fmt.Errorf("limit Output is %d: use a positive number of bytes, or 0 for none", l.Output))
	}
	return errors.Join(errs...)
}

// Result is what a task that ended well gives back. With an error, Payload is
// nil and Stats still says what is known of waiting and running.
type Result struct {
	Payload []byte
	Stats   Stats
}

// Stats says where a task's time went and who ran it.
type Stats struct {
	// Waited is the time from the task's acceptance to its hand-over to the
	// worker that answered it.
	Waited time.Duration
	// Ran is the handler's run time, by the worker's clock where it tells.
	Ran time.Duration
	// Worker names the worker that ran the task; empty when none did.
	Worker string
	// PeakMemory is the worker's peak resident memory in bytes, where the
	// executor measures it; 0 otherwise.
	PeakMemory int64
	// Deaths is how many worker processes ended with the task in hand although
	// none had said that it started it. It is 0 for a task that a worker answered.
	Deaths int
}

// Handler is the one shape of a task's code in Go. The same value serves a
// goroutine pool, a worker process (package worker) and tests: moving it needs
// configuration, not code.
//
// ctx ends at the task's deadline and when the task is canceled. The payload
// of t is the handler's until it returns; the bytes returned belong to the
// executor from then on.
type Handler func(ctx context.Context, t Task) ([]byte, error)

// Observer receives what a running task says of itself. Calls for one task
// come in order and never at the same time; they are bounded: an observer
// that is slower than its task loses lines, it never slows the task.
type Observer interface {
	// Progress tells how far the task is: fraction from 0 to 1, and a note.
	Progress(fraction float64, note string)
	// Log gives one line that the task logged or printed.
	Log(line LogLine)
}

// LogLine is one line that a worker logged or printed while a task ran.
type LogLine struct {
	// Time is when the host received the line.
	Time time.Time
	// Level is the slog level number: -4 debug, 0 info, 4 warn, 8 error.
	Level int
	// Stream is "log" for a logging call, "stdout" or "stderr" for printed text.
	Stream string
	// Text is the line without its line feed.
	Text string
}
