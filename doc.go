// Package bullpen defines the types that all isolation levels of Bullpen share: a [Task]
// and its [Limits], its [Result] and [Outcome], the [Executor] that runs it, and the
// [Handler] that implements it.
//
// A caller submits a task. The task waits in exactly one bounded queue, runs on one worker
// at a time, and ends with exactly one outcome. Every executor keeps this contract, whether
// it makes direct calls ([Inline]) or is a pool of goroutines (package pool), a pool of worker
// processes (package process) or a daemon (package client). To move a task to a stronger
// isolation level, change the configuration, not the code.
//
// There are three ways to hand work to an [Executor]:
//
//   - [Execute] submits one task and waits for it;
//   - [Start] submits one task and returns a [Handle] to wait on;
//   - [Map] and [ExecuteAll] submit many.
//
// # Errors
//
// A [*TaskError] means that the task started, and holds its outcome. Any other error means
// that the task never started, so it is safe to submit it elsewhere:
//
//	res, err := bullpen.Execute(ctx, pool, task)
//	var te *bullpen.TaskError
//	switch {
//	case errors.As(err, &te): // it ran, and te.Outcome says how it ended
//	case err != nil:          // it never started
//	}
//
// The package imports the standard library only.
package bullpen
