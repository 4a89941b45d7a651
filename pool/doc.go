// Package pool runs work in the goroutines of this program: short tasks at a few
// tens of nanoseconds each, long ones with deadlines that are kept towards those
// who wait.
//
// Use this package for Go code that may share the program's memory and fate. For
// code that must be killed when it overruns, leaks, crashes, or is written in
// another language, use package process: the same bullpen.Handler serves both.
//
//   - To run a short function and not wait for it: [Pool.Go]; many at once:
//     [Pool.GoAll].
//   - To get one result: [Submit], which gives a [Future].
//   - To run one function for many arguments, without allocating for each:
//     [NewFunc], then [Func.Call], [Func.Submit], [Func.Group], [Func.All] or
//     [Func.Map].
//   - To run some tasks and go on when all have ended: [Pool.Group], and [Run] for
//     a fixed set without a pool that goes on.
//   - To give a kind of task a name, a priority, a deadline or a delay:
//     [Pool.With].
//   - To bound how many tasks use something at once, such as ten connections to
//     a database, or how many start in a second: [Pool.Lane]. Package poolhttp
//     puts an HTTP handler behind one.
//   - To keep something costly between tasks, such as an interpreter or a
//     connection: [NewStates] and [NewFuncWithState].
//   - To run tasks by name, as a bullpen.Executor: Config.Handlers and
//     [Pool.Submit].
//
// # What holds
//
// Every accepted task has exactly one outcome. An error from a method that submits
// says that the task was not accepted; a *bullpen.TaskError from one that waits says
// that it started, and how it ended; any other error says that it never started.
// Panic and runtime.Goexit end the task, not the program and not the worker's place.
// Tasks wait in one bounded queue (or their lane's), in order of submission within
// a priority and a goroutine; what happens when it is full is Config.Overflow.
//
// A goroutine cannot be killed. When a task overruns its deadline its caller is
// answered then, its context ends, another worker takes the place, and the
// stuck body is counted until it returns; whatever it returns then is dropped.
// [Pool.Guarantees] says the same in the terms of an executor.
//
// A task may submit to its own pool and wait: while it does there may be one worker
// more, so that this cannot hang. The pool knows by the context that the task got,
// so pass that on. Without it the pool finds out when it has stood still for 20 ms.
// Only a wait that it cannot see, on a channel of your own or with bullpen.Execute
// and a foreign context, is left to you.
//
// Drain, Stop and Close end a pool: finish all; finish what has started; cancel. Each
// tells every caller an outcome. The sources of the design, and how their words
// map to ours, are in docs/articles.md.
package pool
