// Package queue keeps jobs until they are done: through crashes of workers, of
// this program and of the machine. Any bullpen.Executor runs them: goroutines,
// worker processes, sandboxed ones.
//
// [Open] says where the jobs are kept: package queue/embedded keeps them in a folder
// of this machine, [Server] on a server of NATS JetStream elsewhere or a cluster of
// them, and [Memory] in this program, for tests. Nothing else differs.
//
// What jobs are and what is told of them stands in package job.
//
//   - To put a job into the queue: [Queue.Enqueue]; many: [Queue.EnqueueAll];
//     and to wait for its outcome: [Queue.Run], or [Queue.Wait] from anywhere.
//   - Jobs that follow one after the other: [Queue.EnqueueChain]; that are counted
//     together, with one that runs when all have ended: [Queue.EnqueueBatch].
//   - Jobs at set times: [Queue.PutSchedule], which [Queue.FireSchedules] enqueues.
//   - To work them off: [Queue.Work]; groups of them (Job.Group) have their turns, within
//     limits of their own: [Queue.SetGroupLimits].
//   - To see them: [Queue.Get], [Queue.List]; to take one back: [Queue.Cancel];
//     to stop and start a queue: [Queue.Pause], [Queue.Resume].
//   - What failed for good: [Queue.ListDead], [Queue.GetDead], [Queue.RetryDead],
//     [Queue.RemoveDead]; by cause and many at once: [Queue.DeadCauses],
//     [Queue.RetryDeadAll], [Queue.RemoveDeadAll].
//
// # What holds
//
// An Enqueue that returned nil survives a loss of power (with [Memory], nothing
// does). Every job that was enqueued has exactly one recorded outcome in the end;
// it is recorded, and survives a loss of power, before the job leaves the queue.
//
// Handlers run at least once. A job runs again when its worker died, when its
// node died (within two leases), when its handler failed and the policy allows
// another attempt, and rarely when nothing failed: an acknowledgement was lost
// within a crash. So a handler should be idempotent: running twice should do what
// running once does. It learns of it by [AttemptOf]. What can be known is never
// repeated: a job whose outcome is recorded does not run again.
//
// The sources of the design are in RATIONALE.md, the states of a job in
// docs/job-states.md.
package queue
