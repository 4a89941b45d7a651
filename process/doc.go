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
// # Bad neighbours
//
// [Config].Limits bounds the memory and the processor time of each worker, PIDs its
// processes; the kernel keeps these bounds, by control groups. A worker that
// reaches its bound of memory is killed, and its task ends with the outcome
// [bullpen.Memory] and a [*MemoryError]. Workers run below the host's priority, and
// are what the kernel kills first when the machine is out of memory. [Sandbox] says
// what else a worker is kept from; ProfileStrict is for code that is not trusted.
// What a machine cannot keep is refused by [New], or told by [Pool.Guarantees].
//
// Many pools of rarely used kinds share a machine by a [Budget]: idle workers of
// one make room for another.
//
// # Fast starts
//
// Spare workers wait for tasks, and are replaced in the background. Python workers
// can be forked from a process that has imported their modules (Preload): in about
// a millisecond or two instead of tens or hundreds. The pool measures how long a
// start takes ([Stats].StartTime) and grows as soon as a task has waited that long,
// or as long as tasks take.
//
// # What happens when a worker dies
//
// Its exit is seen at once. The task that ran is [bullpen.Crashed], with exit
// status or signal and the last lines of standard error. Tasks that had been
// sent and not started go back to the head of the queue. A task that had ended
// without its answer sent is [bullpen.Lost]. Protocol Lines cannot tell these
// apart: there, lines that the worker had read are Lost.
//
// What had started is what the worker says, and a hostile one may lie. So a task
// that was in the hand of a worker that died is given to the next one alone, and
// when three have died with it in hand it ends as if it had run in the last one.
// [bullpen.Stats].Deaths counts them, and package queue counts them against the
// job. A worker that is to end after some tasks is ended by [Recycle].Tasks: one
// that exits by itself may exit with a task in hand.
//
// # What happens when the host dies
//
// On Linux, with the right to make PID namespaces, the kernel kills every worker
// and everything a worker started, also after SIGKILL of the host. Elsewhere
// [Pool.Guarantees] says what is not kept.
package process
