// Package process runs tasks in an elastic pool of worker processes, written in
// any language and isolated from the host and from each other.
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
// wait, ends idle ones, and replaces dead ones. Every accepted task has exactly
// one outcome, whatever dies. See [Config] for the settings, [Pool] for the
// methods, and [bullpen.Executor] for the contract.
//
// The [Protocol] is how the pool talks to a worker: Frames for programs that use
// a worker SDK, Lines for any filter, Exec for one process per task, Lambda for
// functions of AWS Lambda, HTTP for web servers. The last two need no change to
// a program that exists.
//
// # What a task costs
//
// The pool sends several short tasks to a worker at a time, so that they share
// the cost of a context switch. It chooses how many from the measured run time,
// and takes back tasks that wait behind one that turns out to be long. Payloads
// of 32 KiB and more are copied once, into memory shared with the worker. Nothing
// is logged on the path of a task.
//
// # Resource limits
//
// [Config].Limits bounds the memory and the processor time of each worker, and
// PIDs bounds its processes. The kernel enforces these bounds with control groups.
// It kills a worker that reaches its memory bound; the task then ends with the
// outcome [bullpen.Memory] and a [*MemoryError]. Workers run at a lower priority
// than the host, and the kernel kills them first when the machine is out of
// memory. [Sandbox] restricts what else a worker can reach; use ProfileStrict for
// untrusted code. If the machine cannot enforce a bound, [New] returns an error or
// [Pool.Guarantees] reports it.
//
// Pools that are rarely used can share a machine through a [Budget]: idle workers
// of one pool make room for workers of another.
//
// # Fast starts
//
// Spare workers wait for tasks and are replaced in the background. With Preload,
// Python workers are forked from a process that has imported their modules, which
// takes a millisecond or two instead of tens or hundreds. The pool measures how
// long a start takes ([Stats].StartTime). It grows as soon as a task has waited
// for that long, or for the mean run time if that is shorter.
//
// # What happens when a worker dies
//
// The pool sees the exit at once. The task that was running ends as
// [bullpen.Crashed], with the exit status or signal and the last lines of standard
// error. Tasks that were sent but not started go back to the head of the queue. A
// task that had finished but whose answer was not sent is [bullpen.Lost]. The
// protocol Lines cannot tell these cases apart: lines that the worker had read are
// Lost.
//
// The worker itself reports which tasks it has started, and a hostile worker may
// lie. A task that was sent to a worker that died, and was not reported as
// started, is therefore given to the next worker alone. After three such deaths it
// ends as if it had run in the last worker. [bullpen.Stats].Deaths counts the
// deaths, and package queue counts them against the job. To end a worker after a
// number of tasks, set [Recycle].Tasks: a worker that exits by itself may exit
// with tasks assigned to it.
//
// # What happens when the host dies
//
// On Linux, with permission to create PID namespaces, the kernel kills every
// worker and everything that a worker started, even after SIGKILL of the host.
// Elsewhere [Pool.Guarantees] reports what is not guaranteed.
package process
