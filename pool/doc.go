// Package pool runs tasks in goroutines of this program. Short tasks cost a few tens of
// nanoseconds each; for long tasks, the pool keeps deadlines towards the callers that wait.
//
// Use this package for Go code that may share the program's memory and may crash with it.
// Use package process for code that must be killed when it overruns or leaks memory, that
// may crash, or that is written in another language. The same bullpen.Handler works in
// both.
//
//   - [Pool.Go] runs a short function without waiting for it, [Pool.GoAll] many.
//   - [Submit] runs a function and returns a [Future] for its result.
//   - [NewFunc] makes a function that can be run for many arguments without allocating
//     memory for each: [Func.Call], [Func.Submit], [Func.Group], [Func.All], [Func.Map].
//   - [Pool.Group] runs some tasks and waits until all have ended. [Run] does so for a
//     fixed set of tasks, in a temporary pool.
//   - [Pool.With] gives a kind of task a name, a priority, a timeout or a delay.
//   - [Pool.Lane] bounds how many tasks use something at once, such as ten connections to
//     a database, or how many start per second. Package poolhttp puts an HTTP handler
//     behind a lane.
//   - [NewStates] and [NewFuncWithState] reuse something costly for many tasks, such as an
//     interpreter or a connection.
//   - Config.Handlers and [Pool.Submit] run tasks by name, as a bullpen.Executor.
//
// # Guarantees
//
// Every accepted task has exactly one outcome. If a method that submits returns an error,
// the task was not accepted. If a method that waits returns a *bullpen.TaskError, the task
// started, and the error holds its outcome; any other error means that the task never
// started. Panic and runtime.Goexit end the task, but neither the program nor the worker.
// Tasks wait in one bounded queue, the pool's or their lane's. Tasks of the same priority
// that one goroutine submits keep their order. Config.Overflow is the rule for a full
// queue.
//
// A goroutine cannot be killed. When a task overruns its timeout, its context ends, its
// caller gets the outcome immediately, and another worker replaces the stuck one. The
// task's body, which is the function that the pool runs for it, is counted as stuck until
// it returns; its result is dropped. [Pool.Guarantees] describes this for an executor.
//
// A task may submit to its own pool and wait. To prevent a deadlock, the pool may then run
// one worker more until the task ends. The pool recognizes such a task by its context, so
// pass on the context that the task received. Without it, the pool detects the situation
// when it has made no progress for 20 ms. It cannot detect a task that waits on a channel
// of your own, or with bullpen.Execute and another context.
//
// Drain, Stop and Close shut down a pool. Drain finishes all tasks, Stop those that have
// started, and Close cancels them. With each of them, every caller gets an outcome.
// docs/articles.md lists the sources of the design and maps their terms to those used here.
package pool
