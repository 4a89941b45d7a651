package process

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/wire/shapes"
)

// Batch configures shared calls: a worker gets several tasks as the input of one call. The
// zero value is off: each task is a call. With Max above 0 every call has the Shape, also
// one with a single task. It is for the protocols Frames, Lambda and HTTP.
//
// Each task keeps its own outcome, limits and caller:
//
//   - Tasks of one call have the same name. A call is made as soon as Max tasks wait and a
//     worker has room, or when the task that has waited longest has waited for Wait, or when
//     the queue is full or the pool ends. Tasks that wait for a call are in the queue.
//   - The input has at most 6 MiB: a task that does not fit waits for the next call, and one
//     that is larger goes alone.
//   - A task that is canceled, or reaches its time limit, while others of its call go on, ends
//     at once, and its part of the answer is dropped. The call itself ends with its last task:
//     then its worker is asked or killed, as for a single task. The worker sees the longest of
//     the time limits.
//   - If the worker dies, all tasks of the call end so (crashed, memory), as any may be the
//     cause, and each may have run. No other task is affected. The queue runs each of them
//     alone when it tries them again; other callers ask for that by [MetaRedelivered].
//     Tasks of a call that was not begun go back to the queue, alone if the worker had read it.
//   - An error of the call, a malformed answer and one above Limits.Output are those of all its
//     tasks.
//   - What a worker prints or reports during a call reaches the observers of all its tasks.
//     In the log it has the ID of a task only if that was the only one. Results do not stream.
//
// Config.Concurrency and Config.Window count calls; Recycle.Tasks, Stats and histograms count
// tasks, each with the run time of its call.
type Batch struct {
	// Max is the most tasks of a call, at most [MaxBatch]; 0 means that each task is a call.
	Max int
	// Wait is how long a task may wait for others. 0 means that a call has the tasks that
	// wait when a worker has room.
	Wait time.Duration
	// Shape is the form of the input and the answer.
	Shape BatchShape
}

// MaxBatch is the largest Batch.Max, that of AWS.
const MaxBatch = 10000

// BatchShape is the form of the input and the answer of shared calls.
type BatchShape uint8

const (
	// ShapeList is a JSON array of the payloads, which are JSON values, as input, and a JSON
	// array of as many results as answer. An element {"error": "TEXT"} fails its task; it
	// may have "type": "TEXT" too, and "retry": false. An empty payload is null. IDs and
	// metadata of the tasks do not reach the worker.
	ShapeList BatchShape = iota
	// ShapeSQS is the event that AWS Lambda makes of messages of an SQS queue: messageId is
	// the task's ID, body its payload, which is UTF-8, messageAttributes its metadata, and
	// ApproximateReceiveCount its attempt. The answer fails the tasks in batchItemFailures,
	// and those without end well, with an empty result. It is for Lambda.
	ShapeSQS
)

var shapeNames = [...]string{ShapeList: "list", ShapeSQS: "sqs"}

// String returns the name of s.
func (s BatchShape) String() string {
	if int(s) < len(shapeNames) {
		return shapeNames[s]
	}
	return fmt.Sprintf("shape(%d)", uint8(s))
}

// ParseBatchShape returns the shape with the name word.
func ParseBatchShape(word string) (BatchShape, error) {
	if i := slices.Index(shapeNames[:], word); i >= 0 {
		return BatchShape(i), nil
	}
	return 0, fmt.Errorf("unknown shape %q: use list or sqs", word)
}

// checkBatch returns the faults of Batch.
func (r *resolved) checkBatch() error {
	b := r.Batch
	if b == (Batch{}) {
		return nil
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if b.Max < 1 || b.Max > MaxBatch {
		bad("Batch.Max is %d: use 1 to %d tasks, or leave Batch out", b.Max, MaxBatch)
	}
	if b.Wait < 0 {
		bad("Batch.Wait is %v: use a positive duration, or 0 for none", b.Wait)
	}
	if int(b.Shape) >= len(shapeNames) {
		bad("Batch.Shape is %d: use ShapeList or ShapeSQS", b.Shape)
	}
	if int(r.Protocol) < len(protocols) && !protocols[r.Protocol].shares {
		bad("Batch is for the protocols frames, lambda and http only: leave it out, as the protocol is %v", r.Protocol)
	} else if b.Shape == ShapeSQS && r.Protocol != Lambda {
		bad("Batch.Shape is sqs, which is for the protocol lambda only: use list, as the protocol is %v", r.Protocol)
	}
	return errors.Join(errs...)
}

// shapeOf returns the shape of shared calls, nil without them.
func (r *resolved) shapeOf() shapes.Shape {
	switch {
	case r.Batch.Max == 0:
		return nil
	case r.Batch.Shape == ShapeSQS:
		return shapes.SQS{Queue: r.Name, Region: lambdaRegion}
	}
	return shapes.List{}
}

// each returns the most tasks of a call.
func (r *resolved) each() int { return max(r.Batch.Max, 1) }
