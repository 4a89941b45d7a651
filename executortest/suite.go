// Package executortest tests the contract of [bullpen.Executor]. Every executor runs its
// test suite:
//
//	func TestContract(t *testing.T) {
//		executortest.Run(t, executortest.Factory{New: newExecutor})
//	}
//
// [Handlers] serve the tasks of the suite. The same map works in a goroutine pool, in a
// worker process or anywhere else that runs Go code, and the suite verifies that the
// results are the same everywhere. Handlers may run in another process, so they communicate
// with the suite only by payloads, results and files.
//
// [Neighbours] is the second half of the suite. It tests what misbehaving tasks do to other
// tasks, to the host and to the machine.
//
// If an executor cannot guarantee something where it runs ([bullpen.Guarantees],
// [Promises]), the clause is skipped, and the message names the missing guarantee and the
// reason. Apart from that, the suite skips only tests that kill workers, if the [Factory]
// has no KillWorker, tests of waiting tasks, if it is Inline, and tests that look for
// processes, if there is no /proc.
//
// The environment variable BULLPEN_REQUIRE turns skips into failures. Its value is "all",
// or a comma-separated list such as BULLPEN_REQUIRE=MemoryBound,OrphanProof. The names are
// the fields of Guarantees and Promises, KillWorker, Room and Queue. BULLPEN_LONG=1 runs the floods of
// Neighbours at full size.
package executortest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// Overflow is the rule of an executor for a task that finds its queue full.
type Overflow uint8

// The overflow rules.
const (
	// Block means that Submit waits for room until its context ends.
	Block Overflow = iota
	// Reject means that Submit returns [bullpen.ErrOverloaded].
	Reject
	// DropOldest means that the longest-waiting task ends with [bullpen.ErrOverloaded], and
	// the new one is accepted.
	DropOldest
)

// Options are the requirements of a test on the executor. No field is zero except Overflow,
// and Bounds except in some clauses of [Neighbours].
type Options struct {
	// Workers is how many tasks run at a time.
	Workers int
	// Queue is how many tasks may wait.
	Queue    int
	Overflow Overflow
	// Grace is how long tasks may keep running after they were asked to end.
	Grace time.Duration
	// Bounds are the bounds of each worker. If the level cannot enforce one of them, the
	// factory leaves it out, and Guarantees or [Promises] report that.
	Bounds Bounds
}

// Bounds bound what a worker may use, including everything it starts. A zero field means no
// bound.
type Bounds struct {
	// Memory is in bytes, CPU in processors.
	Memory int64
	CPU    float64
	// PIDs is the maximum number of processes and threads.
	PIDs int
	// Temp requests a separate temporary folder for the worker.
	Temp bool
}

// Promises are guarantees of an executor that [bullpen.Guarantees] does not contain.
type Promises struct {
	// PIDs: Bounds.PIDs is enforced.
	PIDs bool
	// Temp: each worker has its own temporary folder, which is removed with it.
	Temp bool
	// Family: everything that a worker's tasks have started ends with the worker, even if
	// it has detached itself.
	Family bool
}

// Factory makes the executors under test.
type Factory struct {
	// New makes an executor whose tasks [Handlers] serve. The suite closes it. If New
	// cannot make one, it ends t.
	New func(t *testing.T, o Options) bullpen.Executor
	// KillWorker kills a running worker by force, or does nothing if none runs. It is
	// called from the goroutine of the test. Nil means that workers cannot be killed.
	KillWorker func(t *testing.T, e bullpen.Executor)
	// Promises returns what e guarantees in addition to its Guarantees, if its Options
	// asked for it. Nil means nothing.
	Promises func(e bullpen.Executor) Promises
	// Guests means that tasks run in machines of their own inside this process: they have no
	// processes, signals and descriptors, and their memory is a part of this process's. The
	// clauses about these are skipped.
	Guests bool
	// Unasked means that a running task is not asked to end: its worker is killed at once.
	Unasked bool
	// Inline means that Submit returns only when the task has ended. Then no task waits, and
	// the clauses about waiting tasks are skipped.
	Inline bool
	// JumpClock moves the wall clock that executors of this factory read by d. Nil means
	// that they read no such clock; then the tests change only the deadlines that contexts
	// report.
	JumpClock func(d time.Duration)
}

// needSystem skips a test of what only tasks with an operating system can do.
func (f Factory) needSystem(t *testing.T, what string) {
	t.Helper()
	if f.Guests {
		t.Skip("the tasks are guests inside this process: ", what)
	}
}

func (f Factory) promises(e bullpen.Executor) Promises {
	if f.Promises == nil {
		return Promises{}
	}
	return f.Promises(e)
}

// needQueue skips a test of tasks that wait if none ever does.
func (f Factory) needQueue(t *testing.T) {
	t.Helper()
	need(t, "Queue", !f.Inline, "Submit returns only when the task has ended, so that none waits")
}

// requireVariable names the environment variable that turns skips into failures.
const requireVariable = "BULLPEN_REQUIRE"

// need returns if a promise is kept. Otherwise it skips the test, or fails it if the
// promise is required. why says what cannot be tested without it. notes say why the
// executor does not keep it; those that mention the promise are used, or all if none does.
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
		t.Fatalf("%s is required (%s=%s) but not kept: %s", promise, requireVariable, os.Getenv(requireVariable), why)
	}
	t.Skipf("%s is not kept: %s", promise, why)
}

// A clause is a part of the contract.
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
	{"Chunks", testChunks},
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

// Run tests the executors that f makes against the contract. Each clause runs in its own
// subtest, one after another. It takes some seconds.
func Run(t *testing.T, f Factory) {
	t.Helper()
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
}
