// Package worker makes a Go program a worker of Bullpen: a process that runs tasks for a
// pool of package process.
//
//	func main() {
//		worker.Main(worker.Config{Handlers: map[string]bullpen.Handler{"thumbnail": thumbnail}})
//	}
//
// The handlers are the same as those of a goroutine pool. In a worker:
//
//   - The payload may lie in a read buffer or in shared memory. The handler owns it until it
//     returns; to keep it longer, it must copy it.
//   - The context ends at the task's timeout, when the host asks the task to end, and when the
//     handler returns. If the handler returns the context's error, the task ends as timeout or
//     canceled. With any other error it ends as failed; [bullpen.Fail] controls whether it may
//     be retried.
//   - Task.Meta contains the traceparent of the run, if there is one, as the parent for the
//     handler's own spans (docs/traces.md).
//   - A panic or runtime.Goexit ends the task, not the worker. Faults from which Go cannot
//     recover (a concurrent map write, out of memory, os.Exit) end the worker, and the host
//     reports the task as crashed.
//   - [Progress] and [Logger] report progress and log lines to the host. What a handler prints
//     to standard output or standard error goes to the host's log.
//   - A handler made by [bullpen.Stream] streams its result: each write is sent immediately, which
//     costs a system call. A host that does not accept pieces gets the whole.
//
// By default, a worker runs one task at a time, on one goroutine, and answers a batch of
// small tasks with one write. An empty task costs about a quarter of a microsecond, and its
// context a 32nd of an allocation. If [Config].Concurrency is above 1, handlers run
// concurrently, and each payload is copied.
//
// The package implements version 1 of the protocol in protocol/SPEC.md. It uses only the
// standard library. It also works without shared memory (Windows).
package worker
