package executortest

import "testing"

var neighbours = []clause{
	{"MemoryHog", testMemory},
	{"ForkBomb", testForks},
	{"Spinner", testProcessor},
	{"StaticState", testStatic},
	{"CrashInEveryWay", testCrashes},
	{"DescriptorHog", testDescriptors},
	{"DiskFiller", testDisk},
	{"OutputFlood", testOutput},
	{"DeafToSignals", testDeaf},
	{"Escape", testEscape},
	{"StoppedWorker", testStopped},
	{"ClockJumps", testClock},
}

// Neighbours gives the executors that f makes tasks as bad as they can be, each
// kind in a subtest of its own, one after the other:
//
//	func TestNeighbours(t *testing.T) {
//		executortest.Neighbours(t, executortest.Factory{New: newExecutor, Promises: promises})
//	}
//
// While they run, short tasks run beside them in another executor, and in other
// workers of the same one; all of those must end well and in time. Afterwards the
// executor must still serve, each accepted task must have one outcome, the memory
// of this program must not have grown by more than 20 MB, and nothing may be left
// of closed executors: no goroutine, no descriptor, no child process and nothing
// that a task has started.
//
// It takes some 20 seconds for an executor that keeps everything. It watches the
// whole process, so that neither the test that calls it nor any other may run in
// parallel with it.
func Neighbours(t *testing.T, f Factory) {
	t.Helper()
	t.Run("Innocent", func(t *testing.T) {
		s := f.open(t, Options{}) // what is kept from the first executor on is no leak
		s.works()
	})
	for _, c := range neighbours {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
}
