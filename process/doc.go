// Package process runs tasks in an elastic pool of worker processes, in any
// language, isolated from the host and from each other.
//
//	p, err := process.New(process.Config{
//		Command: []string{"python3", "thumbnails.py"},
//		Max:     8,
//		Limits:  bullpen.Limits{Timeout: 30 * time.Second},
//	})
//	defer p.Close()
//	res, err := p.Execute(ctx, bullpen.Task{Name: "thumbnail", Payload: jpeg})
//
// A worker stays warm and runs many tasks. The pool starts workers when tasks
// wait, ends those that idle, replaces those that die, and answers every task
// that it accepted exactly once, whatever dies. See [Config] for what can be
// set, [Pool] for what can be asked, and [bullpen.Executor] for the contract.
//
// How to talk to a worker is the pool's [Protocol]: Frames for programs that use
// a worker SDK, Lines for any filter, Exec for one process a task.
//
// # What a task costs
//
// Short tasks travel several at a time to one worker, so that a switch of
// processes is paid once for all of them; the pool chooses how many from the
// measured run time, and takes back what waits behind a task that turns out to
// be long. Payloads from 32 KiB on are copied once into memory shared with the
// worker. Nothing is logged on the path of a task.
//
// # What happens when a worker dies
//
// Its exit is seen at once. The task that ran is [bullpen.Crashed], with exit
// status or signal and the last lines of standard error. Tasks that had been
// sent and not started go back to the head of the queue. A task that had ended
// without its answer sent is [bullpen.Lost]. Protocol Lines cannot tell these
// apart: there, lines that the worker had read are Lost.
//
// # What happens when the host dies
//
// On Linux, with the right to make PID namespaces, the kernel kills every worker
// and everything a worker started, also after SIGKILL of the host. Elsewhere
// [Pool.Guarantees] says what is not kept.
package process
