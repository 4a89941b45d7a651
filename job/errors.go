package job

import (
	"errors"
)

// The errors of calls that need the payload of a job.
var (
	// ErrPayloadGone says that the job has ended and that its payload is no longer
	// kept, or never was (see Keep.Payloads).
	ErrPayloadGone = errors.New("the payload is no longer kept")
	// ErrNotEnded says that the job has not ended.
	ErrNotEnded = errors.New("the job has not ended")
)

// ErrIncomplete says that a batch cannot be sealed with the given total: members
// are missing, or there are more.
var ErrIncomplete = errors.New("the batch does not have these members")

// The errors of a queue.
var (
	// ErrFull says that the queue or its disk is full; nothing was enqueued.
	ErrFull = errors.New("the queue is full")
	// ErrClosed says that this Queue was closed.
	ErrClosed = errors.New("the queue is closed")
	// ErrStore says that the store failed or does not answer. Jobs that it has
	// confirmed are safe.
	ErrStore = errors.New("the store of the queue does not answer")
	// ErrUnconfirmed says that a job may be in the queue or not: the answer was
	// not awaited or got lost. Enqueue it again with the same key to be sure.
	ErrUnconfirmed = errors.New("not confirmed")
)
