package job

import (
	"errors"
)

// The errors of calls that need the payload of a job.
var (
	// ErrPayloadGone: the job has ended, and its payload is no longer kept or never was
	// (see Keep.Payloads).
	ErrPayloadGone = errors.New("the payload is no longer kept")
	// ErrNotEnded: the job has not ended.
	ErrNotEnded = errors.New("the job has not ended")
)

// ErrIncomplete says that a batch cannot be sealed with this total, because members are
// missing or there are more.
var ErrIncomplete = errors.New("the batch does not have these members")

// The errors of a queue.
var (
	// ErrFull: the queue or its disk is full; nothing was enqueued.
	ErrFull = errors.New("the queue is full")
	// ErrClosed: the queue was closed.
	ErrClosed = errors.New("the queue is closed")
	// ErrStore: the store has failed or does not answer. Jobs that it has confirmed are
	// safe.
	ErrStore = errors.New("the store of the queue does not answer")
	// ErrUnconfirmed: a job may be in the queue or not, because the confirmation was
	// not awaited or was lost. To be sure, enqueue it again with the same key.
	ErrUnconfirmed = errors.New("not confirmed")
)
