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

// Neighbours gives misbehaving tasks to the executors that f makes. Each kind runs in its
// own subtest, one after another:
//
//	func TestNeighbours(t *testing.T) {
//		executortest.Neighbours(t, executortest.Factory{New: newExecutor, Promises: promises})
//	}
//
// Meanwhile, short tasks run in another executor and in other workers of the same one. All
// of these must succeed in time. Afterwards the executor must still work, each accepted
// task must have one outcome, and the memory of this program must not have grown by more
// than 20 MB. Closed executors must leave nothing behind: no goroutine, no descriptor, no
// child process and nothing that a task has started.
//
// It takes some 20 seconds for an executor that keeps all promises. It watches the whole
// process, so no other test may run in parallel with the calling one.
func Neighbours(t *testing.T, f Factory) {
	t.Helper()
	t.Run("Innocent", func(t *testing.T) {
		s := f.open(t, Options{}) // what the first executor keeps for good is no leak
		s.works()
	})
	for _, c := range neighbours {
		t.Run(c.name, func(t *testing.T) { c.test(t, f) })
	}
}
