package bullpen

import "context"

// Executor runs tasks. All methods are safe for concurrent use.
//
// An executor that several callers share should also be a [RoomNotifier].
//
// Every executor keeps this contract, which package executortest checks:
//
//  1. Every accepted task has exactly one outcome.
//  2. An error is a [*TaskError] if and only if the task started. Only a task that never
//     started may be resubmitted silently.
//  3. Tasks wait in one bounded queue with a documented overflow rule.
//  4. Limits are enforced, or the task is refused.
//  5. Nested work cannot deadlock.
//  6. A full pool, a slow log, a slow caller or a slow worker never blocks the dispatcher.
//  7. States change in one atomic step, and only as their table allows.
type Executor interface {
	// Submit submits t and returns. If and only if it returns nil, done is called exactly
	// once, perhaps before Submit returns. An error from Submit means that t never started.
	// done must not block, because the executor may make these calls one after another.
	//
	// If the queue is full, Submit follows the executor's overflow rule: it blocks until
	// ctx ends, or returns [ErrOverloaded]. ctx also applies to the task: if ctx ends, the
	// task is canceled.
	Submit(ctx context.Context, t Task, done func(Result, error)) error
	// Capacity returns how many more tasks the executor can start now.
	Capacity() int
	// Guarantees returns what the executor can guarantee on this machine.
	Guarantees() Guarantees
	// Drain refuses new tasks, finishes all accepted ones, and shuts down. If ctx ends
	// first, it continues as Close.
	//
	// Drain and Stop return nil if and only if every task that they had to finish ended by
	// itself, with any outcome, even if ctx ended in the meantime. If tasks were aborted,
	// the error wraps the cause of ctx, or [ErrClosed] if a concurrent, stronger call
	// aborted them. Like Close, they also return an error that names what does not end.
	Drain(ctx context.Context) error
	// Stop refuses new tasks, fails those that have not started, finishes those that have,
	// and shuts down. If ctx ends first, it continues as Close.
	Stop(ctx context.Context) error
	// Close refuses new tasks, fails those that have not started, cancels and then kills
	// those that have, and shuts down. Drain, Stop and Close may be called repeatedly and
	// concurrently: the strongest call wins. Close returns nil if nothing is left;
	// otherwise the error names what does not end.
	Close() error
}

// Guarantees lists what an executor can enforce where it runs. A task that asks for a
// guarantee that is false is refused.
type Guarantees struct {
	// Preemptive: a task that ignores its cancellation is ended anyway.
	Preemptive bool
	// CrashProof: a task that crashes affects neither other tasks nor the host.
	CrashProof bool
	// OrphanProof: nothing that a task started outlives the host, even if SIGKILL ends the
	// host.
	OrphanProof bool
	// MemoryBound: Limits.Memory is enforced.
	MemoryBound bool
	// CPUBound: Limits.CPU is enforced.
	CPUBound bool
	// NoFilesystem: a task can access only the files that it was given.
	NoFilesystem bool
	// NoNetwork: a task has no network access.
	NoNetwork bool
	// Exact: the outcome Lost does not occur while the host lives, because the executor
	// always knows whether a task has started and ended.
	Exact bool
	// Notes explains what is not guaranteed, one line each, for people.
	Notes []string
}
