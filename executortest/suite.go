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
// [Neighbours] is the second half: what becomes of others, of the host and of
// the machine when tasks are as bad as they can be.
//
// What an executor cannot promise where it runs ([bullpen.Guarantees],
// [Promises]) is not asked of it: the clause is skipped, and says which promise
// is missing and why. Nothing else is ever skipped, except what needs a worker to
// be killed when the [Factory] knows no way to do it, and what looks for
// processes where there is no /proc.
//
// The environment variable BULLPEN_REQUIRE turns skips into failures: it is "all",
// or names promises with commas between them, such as
// BULLPEN_REQUIRE=MemoryBound,OrphanProof. The names are those of the fields of
// Guarantees and Promises, and of KillWorker of Factory. BULLPEN_LONG=1 makes the
// floods of Neighbours as large as they are meant to be.
package executortest

import (
	"os"
	"slices"
	"strings"
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
// but Overflow, and Bounds except in some clauses of [Neighbours].
type Options struct {
	// Workers is how many tasks run at once.
	Workers int
	// Queue is how many tasks may wait.
	Queue    int
	Overflow Overflow
	// Grace is how long tasks may go on after they have been asked to end.
	Grace time.Duration
	// Bounds are what each worker is held to. Where a level cannot keep one of
	// them, the factory leaves it out, and Guarantees or [Promises] say so.
	Bounds Bounds
}

// Bounds are what one worker may use, with all that it starts. A zero field
// bounds nothing.
type Bounds struct {
	// Memory is in bytes, CPU in processors' worth of time.
	Memory int64
	CPU    float64
	// PIDs is the most processes and threads.
	PIDs int
	// Temp asks for a temporary folder of the worker's own.
	Temp bool
}

// Promises are what an executor keeps and [bullpen.Guarantees] has no word for.
type Promises struct {
	// PIDs: Bounds.PIDs is kept.
	PIDs bool
	// Temp: each worker has a temporary folder of its own, which goes with it.
	Temp bool
	// Family: what a worker's tasks have started ends with the worker, also when
	// it has detached itself.
	Family bool
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
	// Promises says what e keeps besides its Guarantees, when its Options asked
	// for it. Nil says nothing.
	Promises func(e bullpen.Executor) Promises
	// JumpClock moves the wall clock that executors of this factory read by d.
	// Nil says that they have none of their own: then only what contexts say of
	// the clock jumps.
	JumpClock func(d time.Duration)
}

func (f Factory) promises(e bullpen.Executor) Promises {
	if f.Promises == nil {
		return Promises{}
	}
	return f.Promises(e)
}

// requireVariable names the environment variable that turns skips into failures.
const requireVariable = "BULLPEN_REQUIRE"

// need goes on where a promise is kept, and otherwise skips the test, or fails it
// where the promise is required. why says what cannot be shown without it; of
// notes, which say why the executor does not keep it, those count that name it,
// or all.
func need(t *testing.T, promise string, kept bool, why string, notes ...string) {
	t.Helper()
	if kept {
		return
	}
	named := slices.DeleteFunc(slices.Clone(notes), func(note string) bool { return !strings.Contains(note, promise) })
	if len(named) > 0 {
		notes = named
	}
	if len(notes) > 0 {
		why += ": " + strings.Join(notes, "; ")
	}
	required := strings.Split(os.Getenv(requireVariable), ",")
	if slices.Contains(required, "all") || slices.Contains(required, promise) {
		t.Fatalf("%s is required (%s=%s) and not kept: %s", promise, requireVariable, os.Getenv(requireVariable), why)
	}
	t.Skipf("%s is not kept: %s", promise, why)
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
	{"Room", testRoom},
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
	{"EndingsThatAbortNothing", testEndingsThatAbortNothing},
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
