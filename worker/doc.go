// Package worker makes a Go program a worker of Bullpen: a process that runs
// the tasks which a pool of package process hands to it.
//
//	func main() {
//		worker.Main(worker.Config{Handlers: map[string]bullpen.Handler{"thumbnail": thumbnail}})
//	}
//
// A handler is the same value that a goroutine pool takes. In a worker:
//
//   - The payload may stand in the buffer or in the shared memory from which it
//     was read. It is the handler's until it returns; a handler that keeps it
//     longer copies it.
//   - The context ends at the task's limit, when the host asks the task to end,
//     and when the handler returns. A handler that answers with the context's
//     error ends as timeout or canceled, with any other error as failed
//     ([bullpen.Fail] says whether another try is of use).
//   - Its Meta has the traceparent of the run, where there is one, so that the
//     handler's own spans hang below it (docs/traces.md).
//   - A panic or runtime.Goexit ends the task, not the worker. What Go cannot
//     recover from (a concurrent map write, no memory left, os.Exit) ends the
//     worker, and the host says that the task crashed.
//   - [Progress] and [Logger] tell the host how the task goes. What a handler
//     prints to standard output or standard error goes to the host's log.
//
// A worker runs one task at a time, on one goroutine, and answers a batch of
// small tasks with one write: an empty task costs about a quarter of a
// microsecond of the worker, and its context a 32nd of an allocation. With [Config].Concurrency above
// 1 handlers run side by side; then each payload is copied.
//
// The package speaks version 1 of the protocol in protocol/SPEC.md. It uses the
// standard library only and works without shared memory where the host has
// none (Windows).
package worker
