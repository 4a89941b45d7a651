// Package wire connects the host with one worker process: tasks, messages, and the pipe
// ends. Packages frames and lines below it encode and decode them. What a pool needs of a
// protocol beyond that is the interface driver of package process.
//
// A codec belongs to one worker process. One goroutine at a time encodes and another
// decodes; Release may be called from any goroutine.
package wire

import (
	"errors"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// Task is one task on its way to a worker.
type Task struct {
	// Number identifies the task at this worker.
	Number uint32
	// Timeout is the run-time limit, 0 for none.
	Timeout time.Duration
	// Output is the largest result of this task, if it has its own bound.
	Output int
	Task   *bullpen.Task
}

// Message is one message from a worker.
type Message struct {
	Kind  protocol.Kind
	Flags uint8
	Code  uint16
	// Number is the task that the message is about, 0 for none.
	Number uint32
	Aux    uint32
	// Body is valid until the next call of Next.
	Body []byte
	// Size is the size of a body that was too long to be kept, else 0.
	Size int
	// Meta is what the worker says of a result besides its body; it may be nil.
	Meta map[string]string
	// Taken is not 0 if Body is in shared memory: pass it to Release once Body has been
	// copied.
	Taken uint64
}

// Failure is an error that a worker reports.
type Failure struct {
	Type, Message, Stack string
}

// Error returns the type and the message.
func (f *Failure) Error() string {
	switch {
	case f.Type == "":
		return f.Message
	case f.Message == "":
		return f.Type
	}
	return f.Type + ": " + f.Message
}

// ErrLong means that an answer is longer than its bound.
var ErrLong = errors.New("the answer is too long")
