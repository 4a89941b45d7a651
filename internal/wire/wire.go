// Package wire is how the host talks to one worker process: the interface that
// every worker protocol implements (packages frames and lines below it), and
// the pipe ends under it. A process a task (exec) needs no codec: its payload
// is standard input and its result standard output.
//
// A Codec belongs to one worker's life. Encoding is done by one goroutine at a
// time and decoding by another; Release may be called from any.
package wire

import (
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// Task is one task on its way to a worker.
type Task struct {
	// Number is the task's number at this worker.
	Number uint32
	// Timeout is the run-time limit, 0 for none.
	Timeout time.Duration
	// Output is the bound of this task's result where it has one of its own.
	Output int
	Task   *bullpen.Task
}

// Message is one thing that a worker says.
type Message struct {
	Kind  protocol.Kind
	Flags uint8
	Code  uint16
	// Number is the task that the message is about, 0 for the oldest that has
	// no answer yet.
	Number uint32
	Aux    uint32
	// Body is valid until the next call of Next.
	Body []byte
	// Taken says that Body stands in shared memory and what to give to
	// Release once it has been copied; 0 otherwise.
	Taken uint64
}

// Codec writes tasks and reads messages of one worker.
type Codec interface {
	// Check says why t cannot travel, nil when it can. It is called before the
	// task is accepted, from any goroutine.
	Check(t *bullpen.Task) error
	// AppendTask appends what hands t over.
	AppendTask(out []byte, t Task) []byte
	// AppendCancel appends what asks the task to end, nothing where the protocol
	// has no way to ask.
	AppendCancel(out []byte, number uint32, reason uint16) []byte
	// Next cuts the first message off in. n is 0 when there is none yet; need
	// is then how many bytes it has, as far as is known.
	Next(in []byte) (m Message, n, need int, err error)
	// Answered gives back what the task took; called once per answered task.
	Answered(number uint32)
	// Release gives back the place of a message's Body.
	Release(taken uint64)
}
