// Package executortest is the contract of [bullpen.Executor] as a suite of
// tests, which every executor runs:
//
//	func TestContract(t *testing.T) {
//		executortest.Run(t, executortest.Factory{New: newExecutor})
//	}
//
// The tasks of the suite are served by [Handlers]. The same map serves a
// goroutine pool, a worker process or anything else that runs Go code, and the
// suite shows that it gives the same results everywhere. Handlers may run in
// another process: they talk with the suite by payloads, results and files
// alone.
//
// What an executor cannot promise where it runs ([bullpen.Guarantees]) is not
// asked of it; nothing else is ever skipped, except what needs a worker to be
// killed when the [Factory] knows no way to do it.
package executortest

import (
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Overflow is what an executor does with a task for which its queue has no
// room.
type Overflow uint8

// The overflow rules.
const (
	// Block lets Submit wait for room until its context ends.
	Block Overflow = iota
	// Reject lets Submit return [bullpen.ErrOverloaded].
	Reject
	// DropOldest ends the task that has waited longest with
	// [bullpen.ErrOverloaded] and takes the new one.
	DropOldest
)

// Options are what a test of the suite needs of the executor. No field is zero
// but Overflow.
type Options struct {
	// Workers is how many tasks run at once.
	Workers int
	// Queue is how many tasks may wait.
	Queue    int
	Overflow Overflow
	// Grace is how long tasks may go on after they have been asked to end.
	Grace time.Duration
}

// Factory makes the executors that are tested.
type Factory struct {
	// New makes an executor whose tasks are served by [Handlers]. The suite
	// closes it. New ends t when it cannot make one.
	New func(t *testing.T, o Options) bullpen.Executor
	// KillWorker kills the worker that runs now, or one of them, by force, and
	// does nothing when none runs. It is called from the goroutine of the test.
	// Nil says that workers cannot be killed.
	KillWorker func(t *testing.T, e bullpen.Executor)
}

// A clause is one part of the contract.
type clause struct {
	name string
	test func(t *testing.T, f Factory)
}

var contract = []clause{
	{"SameResultsAsDirectCalls", testResults},
	{"PayloadIsLeftAlone", testPayloadLeftAlone},
	{"Failure", testFailure},
	{"Panic", testPanic},
	{"Goexit", testGoexit},
	{"UnknownTask", testUnknownTask},
	{"OutputLimit", testOutputLimit},
	{"LimitsKeptOrRefused", testRefusedLimits},
	{"Stats", testStats},
	{"WorkersRunAtOnce", testWorkersRunAtOnce},
	{"TimeoutOfRunTime", testTimeout},
	{"TimeoutDoesNotCountWaiting", testTimeoutNotWaiting},
	{"DeadlineWhileRunning", testDeadlineRunning},
	{"DeadlineWhileQueued", testDeadlineQueued},
	{"CancelQueued", testCancelQueued},
	{"CancelRunning", testCancelRunning},
	{"CanceledBeforeSubmit", testCanceledBefore},
	{"TimeoutOfSpinningTask", testPreemption},
	{"NestedWorkEnds", testNested},
	{"OverflowReject", testReject},
	{"OverflowBlock", testBlock},
	{"OverflowDropOldest", testDropOldest},
	{"Drain", testDrain},
	{"Stop", testStop},
	{"Close", testClose},
	{"CloseEndsBlockedSubmit", testCloseEndsBlockedSubmit},
	{"CloseOfStubbornTask", testCloseStubborn},
	{"DrainEscalates", testDrainEscalates},
	{"StopEscalates", testStopEscalates},
	{"CloseDuringDrain", testCloseDuringDrain},
	{"EndingsTogether", testEndingsTogether},
	{"SubmitAfterClose", testSubmitAfterClose},
	{"SlowCallback", testSlowCallback},
	{"Execute", testExecute},
	{"Handle", testHandle},
	{"ExecuteAll", testExecuteAll},
	{"MapInOrder", testMapInOrder},
	{"MapAsCompleted", testMapAsCompleted},
	{"MapReadsAheadWithinBounds", testMapAhead},
	{"MapLeftEarly", testMapLeftEarly},
	{"MapCanceled", testMapCanceled},
	{"WorkerKilledWhileRunning", testKillRunning},
	{"WorkerKilledWhileIdle", testKillIdle},
	{"WorkerExits", testWorkerExits},
	{"Random", testRandom},
}

// Run holds the executors that f makes against the contract, each clause in a
// subtest of its own, one after the other. It takes some seconds.
func Run(t *testing.T, f Factory) {
	t.Helper()
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
}
