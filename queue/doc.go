// Package queue keeps jobs until they are done: through crashes of workers, of
// this program and of the machine. Any bullpen.Executor runs them: goroutines,
// worker processes, sandboxed ones.
//
// The jobs lie in a store: in a folder of this machine (package queue/embedded), on a
// NATS server or cluster ([Server]), or in the memory of this program, for tests
// ([Memory]). Nothing else differs.
//
// Package job has the types of jobs and of what is known of them.
//
//   - To enqueue a job: [Queue.Enqueue]; many: [Queue.EnqueueAll]; and to wait for its
//     outcome: [Queue.Run], or [Queue.Wait] on any node.
//   - Jobs that run one after the other: [Queue.EnqueueChain]; jobs that are counted
//     together, with another one when all have ended: [Queue.EnqueueBatch].
//   - Jobs at set times: [Queue.PutSchedule] and [Queue.FireSchedules].
//   - To run them: [Queue.Work]. Groups of jobs (Job.Group) take turns, within limits of
//     their own: [Queue.SetGroupLimits].
//   - To see them: [Queue.Get], [Queue.List]; to cancel one: [Queue.Cancel]; to stop and
//     start a queue: [Queue.Pause], [Queue.Resume].
//   - Jobs that failed for good: [Queue.ListDead], [Queue.GetDead], [Queue.RetryDead],
//     [Queue.RemoveDead]; by cause and many at once: [Queue.DeadCauses],
//     [Queue.RetryDeadAll], [Queue.RemoveDeadAll].
//
// # Guarantees
//
// A job for which Enqueue returned nil survives a loss of power (except with [Memory]).
// It has exactly one recorded outcome in the end. It leaves the queue only after that
// record survives a loss of power.
//
// Handlers run at least once. A job runs again when its worker died, when its node died
// (within two leases), when its handler failed and the policy allows another attempt;
// and rarely when nothing failed, because a crash lost an acknowledgement. So a handler
// should be idempotent: running twice should have the same effect as running once.
// [AttemptOf] says which attempt it is. A job whose outcome is recorded does not run
// again.
//
// RATIONALE.md has the sources of the design, docs/job-states.md the states of a job.
package queue
