package bullpen

import "context"

// Executor is anything that runs tasks. All methods are safe for concurrent
// use.
//
// An executor that several callers share should also be a [RoomNotifier].
//
// The contract, which package executortest checks for every executor:
//
//  1. Every accepted task has exactly one outcome, whatever happens.
//  2. "Started" and "never started" are told apart: a [*TaskError] or another
//     error. Only a task that never started is replayed in silence.
//  3. There is one bounded place to wait, with a stated overflow rule.
//  4. Limits are kept or the task is refused.
//  5. Nested work cannot hang.
//  6. The dispatcher is never blocked by a full pool, a slow log, a slow
//     caller or a slow worker.
//  7. States move by one atomic step over a table of legal moves.
type Executor interface {
	// Submit hands t over and returns. If and only if it returns nil, done is
	// called exactly once, perhaps before Submit returns. An error from Submit
	// says that t never started. done must not block: calls to it may be made
	// one after the other.
	//
	// When the executor's queue is full, Submit does what the executor's
	// overflow rule says: it blocks until ctx ends, or returns [ErrOverloaded].
	// ctx also bounds the task itself: when it ends, the task is canceled.
	Submit(ctx context.Context, t Task, done func(Result, error)) error
	// Capacity tells how many more tasks the executor can start now.
	Capacity() int
	// Guarantees tells what the executor can promise on this machine.
	Guarantees() Guarantees
	// Drain refuses new tasks, finishes all accepted ones, and ends. When ctx
	// ends first it goes on as Close.
	//
	// Drain and Stop return nil if and only if each task that they were to finish
	// was finished, however it ended by itself: also when ctx has ended meanwhile.
	// When a stronger ending aborted one, the error wraps the cause of ctx, or
	// [ErrClosed] where ctx has not ended and another call was the stronger one.
	// What does not end at all is named in the error, as by Close.
	Drain(ctx context.Context) error
	// Stop refuses new tasks, fails those that have not started, finishes those
	// that have, and ends. When ctx ends first it goes on as Close.
	Stop(ctx context.Context) error
	// Close refuses new tasks, fails those that have not started, cancels and
	// then kills those that have, and ends. Drain, Stop and Close may be called
	// again, at the same time, and from many places: the strongest wins. Close
	// returns nil when nothing is left; else the error names what does not end.
	Close() error
}

// Guarantees says what an executor can promise where it runs. What is false is
// not kept, and a task that asks for it is refused.
type Guarantees struct {
	// Preemptive: a task that ignores its cancellation is ended all the same.
	Preemptive bool
	// CrashProof: a crash of a task's code ends no other task and not the host.
	CrashProof bool
	// OrphanProof: nothing that a task started outlives the host, even when
	// the host is killed by SIGKILL.
	OrphanProof bool
	// MemoryBound: Limits.Memory is kept.
	MemoryBound bool
	// CPUBound: Limits.CPU is kept.
	CPUBound bool
	// NoFilesystem: a task sees no file that it was not given.
	NoFilesystem bool
	// NoNetwork: a task has no network.
	NoNetwork bool
	// Exact: the outcome Lost does not occur while the host lives, because the
	// executor always learns whether a task had started and ended.
	Exact bool
	// Notes says why something is not promised, one line each, for people.
	Notes []string
}
