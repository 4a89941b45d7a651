package bullpen

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Task is one unit of work. It is passed by value. Executors do not modify it, and do not
// use Payload or Meta after they have delivered its outcome; until then the caller must not
// modify them.
type Task struct {
	// ID identifies the task in logs, errors and events. It may be empty; no executor
	// generates one on its hot path. For a task from the queue it is the job's ID.
	ID string
	// Name is the kind of the task. It selects the handler in the worker.
	Name string
	// Payload is the input. Bullpen does not interpret it.
	Payload []byte
	// Meta is passed to the handler with the task: traceparent, attempt, content type, and
	// the user's own keys. Keys that begin with "bullpen." are reserved. Nil costs nothing.
	Meta map[string]string
	// Limits are the limits of this task. Zero fields mean the executor's own limits.
	Limits Limits
	// Observer receives the progress and log lines of this task. It may be nil.
	Observer Observer
}

// Limits bound what a task may use. In a task, a zero field means the executor's limit; in
// an executor, it means no limit. An executor that cannot enforce a limit refuses the task
// ([ErrRefused]); it never ignores the limit.
type Limits struct {
	// Timeout is the maximum run time, from the start of the handler. The deadline of a
	// task's context, by contrast, includes the time spent waiting.
	Timeout time.Duration
	// Memory is the maximum memory of the worker, in bytes.
	Memory int64
	// CPU is the maximum processor use, where 1 is one full processor.
	CPU float64
	// Output is the maximum size of the result, in bytes.
	Output int
}

// Check returns an error that lists all invalid limits, or nil if there are none.
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

// Result is the result of a task. If the task returned an error, Payload is nil, and Stats
// holds what is known of waiting and running.
type Result struct {
	Payload []byte
	// Meta is what the worker says of Payload: its content type, or the attributes of a
	// CloudEvent. It is nil where a worker says nothing, as with most protocols.
	Meta  map[string]string
	Stats Stats
}

// Stats reports how long a task waited and ran, and which worker ran it.
type Stats struct {
	// Waited is the time from accepting the task to handing it to the worker that answered
	// it.
	Waited time.Duration
	// Ran is the handler's run time, by the worker's clock if the worker reports it.
	Ran time.Duration
	// Worker names the worker that ran the task, or is empty if none did.
	Worker string
	// PeakMemory is the worker's peak resident memory in bytes, or 0 if the executor does
	// not measure it.
	PeakMemory int64
	// Deaths is how many worker processes died holding the task before they had reported
	// its start. It is 0 for a task that a worker answered.
	Deaths int
}

// Handler implements a task in Go. The same Handler works in a goroutine pool, in a worker
// process (package worker) and in tests.
//
// ctx ends at the task's deadline and when the task is canceled. The handler owns t.Payload
// until it returns. After that, the executor owns the returned bytes.
type Handler func(ctx context.Context, t Task) ([]byte, error)

// Observer receives the progress and log lines of a running task. Calls for one task are
// made in order and never concurrently. An observer that is slower than its task loses
// lines; it does not slow the task.
type Observer interface {
	// Progress reports the progress of the task: a fraction from 0 to 1, and a note.
	Progress(fraction float64, note string)
	// Log reports one line that the task logged or printed.
	Log(line LogLine)
}

// ChunkObserver is an optional interface of a task's Observer: it receives a result in
// pieces, as the worker writes them. Handlers made by [Stream] stream at every level, and so
// do workers of package process in other languages that speak frames, HTTP or Lambda. If
// Chunk was called, [Result].Payload is empty. The task still has one outcome, which may be
// an error after pieces have come.
type ChunkObserver interface {
	Observer
	// Chunk receives the next piece, before the outcome is delivered, and must not retain
	// it. What a worker has written at once may come in several pieces, and several writes
	// as one. While Chunk blocks, the worker has to wait; a worker of package process with
	// several tasks waits only if it speaks HTTP or Lambda. Chunk must return when the
	// context of the task ends. If it does not, or the task fails for another reason, the
	// outcome may be delivered before Chunk returns; Chunk is not called again.
	Chunk(piece []byte)
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
