// Package wire connects the host with one worker process. It defines the interface that
// every worker protocol implements (packages frames and lines below it), and the pipe
// ends. A process per task (exec) needs no codec: its payload is standard input and its
// result is standard output.
//
// A Codec belongs to one worker process. One goroutine at a time encodes and another
// decodes; Release may be called from any goroutine.
package wire

import (
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
	// Number is the task that the message is about; 0 is the oldest without an answer.
	Number uint32
	Aux    uint32
	// Body is valid until the next call of Next.
	Body []byte
	// Taken is not 0 if Body is in shared memory: pass it to Release once Body has been
	// copied.
	Taken uint64
}

// Codec encodes tasks and decodes messages for one worker.
type Codec interface {
	// Check returns why t cannot be sent, nil if it can. It is called before the task is
	// accepted, from any goroutine.
	Check(t *bullpen.Task) error
	// AppendTask appends the message that sends t to the worker.
	AppendTask(out []byte, t Task) []byte
	// AppendCancel appends the message that asks the task to end. It appends nothing if
	// the protocol has no such message.
	AppendCancel(out []byte, number uint32, reason uint16) []byte
	// Next splits off the first message of in. n is 0 if in holds no complete message;
	// need is then the message's size in bytes, as far as is known.
	Next(in []byte) (m Message, n, need int, err error)
	// Answered frees what the task used; called once per answered task.
	Answered(number uint32)
	// Release frees the shared memory of a message's Body.
	Release(taken uint64)
}
