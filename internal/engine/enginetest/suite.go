// Package enginetest is the contract of [engine.Engine] as a suite of tests, which every
// engine runs:
//
//	func TestContract(t *testing.T) {
//		enginetest.Run(t, enginetest.Factory{New: newStore})
//	}
//
// Each clause is a subtest. A Factory lists in Without the clauses that its engine cannot
// keep in its environment, with the reason; they are skipped with these words. Apart from
// them, only clauses that need several nodes on one store are skipped, if the engine is
// not Shared.
//
// Random tests print their seed; BULLPEN_SEED repeats it.
package enginetest

import (
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Factory makes the stores to test.
type Factory struct {
	// New returns a store that holds nothing in the namespaces of the suite. Its
	// resources are released when t ends, when all engines are closed. The suite opens
	// engines on the store one after the other, which is a restart, and several at once
	// only if the engine is Shared.
	New func(t *testing.T) engine.Store
	// Lease is the shortest lease that the engine can keep well; 0 is 1 s. The suite
	// waits for the end of some leases.
	Lease time.Duration
	// Late is how late something may happen that is due by itself: the end of a lease, of
	// a delay, of a TTL, of an age, and a schedule. 0 is 1 s.
	Late time.Duration
	// Without names the clauses that the engine cannot keep, with the reason.
	Without map[string]string
	// Parallel runs the clauses concurrently.
	Parallel bool
}

// A clause is one part of the contract.
type clause struct {
	name string
	test func(t *testing.T, f Factory)
}

var contract = []clause{
	{"PutDoneOnce", testPutDoneOnce},
	{"PutKept", testPutKept},
	{"PutKeepsData", testPutKeepsData},
	{"PutNew", testPutNew},
	{"PutNewRacing", testPutNewRacing},
	{"PutAfter", testPutAfter},
	{"PutAfterRacing", testPutAfterRacing},
	{"SequencesRise", testSequencesRise},
	{"OneMessageASubject", testOneMessageASubject},
	{"Get", testGet},
	{"GetNewestOfMatching", testGetWildcard},
	{"Delete", testDelete},
	{"DeleteOfJobs", testDeleteOfJobs},
	{"ScanInPages", testScanPages},
	{"ScanPatterns", testScanPatterns},
	{"WalkBothWays", testWalk},
	{"WalkOverGaps", testWalkGaps},
	{"WalkBeyondTheEnds", testWalkEnds},
	{"Matching", testMatching},
	{"TakeInOrder", testTakeInOrder},
	{"TakeConsumersApart", testConsumersApart},
	{"RequestWithoutWait", testRequestWithoutWait},
	{"RequestWithWait", testRequestWithWait},
	{"RequestsAddUp", testRequestsAddUp},
	{"AckRemoves", testAckRemoves},
	{"AnsweredOnce", testAnsweredOnce},
	{"EndStoresAndRemoves", testEnd},
	{"EndRefused", testEndRefused},
	{"NakNow", testNakNow},
	{"NakWithDelay", testNakWithDelay},
	{"RedeliveryFirst", testRedeliveryFirst},
	{"LeaseEnds", testLeaseEnds},
	{"ExtendKeepsLease", testExtend},
	{"GroupedApart", testGroupedApart},
	{"GroupedBegun", testGroupedBegun},
	{"TwoTakers", testTwoTakers},
	{"NothingStrands", testGiveBacks},
	{"StopEndsCallbacks", testStop},
	{"Depth", testDepth},
	{"Pause", testPause},
	{"PauseSurvivesReopen", testPauseReopen},
	{"Schedule", testSchedule},
	{"ScheduleConditions", testScheduleConditions},
	{"ScheduleDeleted", testScheduleDeleted},
	{"ScheduleSurvivesReopen", testScheduleReopen},
	{"BoundOfJobsRefuses", testJobsBound},
	{"BoundOfBytesDropsOldest", testBytesBound},
	{"BoundOfCountDropsOldest", testCountBound},
	{"AgeDrops", testAge},
	{"StateTTL", testStateTTL},
	{"ReopenKeepsAll", testReopen},
	{"ReopenHandsOutAgain", testReopenTaken},
	{"ReopenHandsOutAtOnce", testReopenAtOnce},
	{"Namespaces", testNamespaces},
	{"Info", testInfo},
	{"CloseAnswersPuts", testCloseAnswersPuts},
	{"CloseEndsCallbacks", testCloseEndsCallbacks},
	{"Closed", testClosed},
	{"SendAndListen", testSendAndListen},
	{"SharedByTwo", testShared},
	{"TwoBeginTogether", testBeginTogether},
	{"Random", testRandom},
}

// Run checks the contract on engines of the stores that f makes.
func Run(t *testing.T, f Factory) {
	t.Helper()
	if f.Lease == 0 {
		f.Lease = time.Second
	}
	if f.Late == 0 {
		f.Late = time.Second
	}
	for name, why := range f.Without {
		if !slices.ContainsFunc(contract, func(c clause) bool { return c.name == name }) || why == "" {
			t.Fatalf("Without names %q with the reason %q: want the name of a clause and a reason", name, why)
		}
	}
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) {
			if why := f.Without[c.name]; why != "" {
				t.Skipf("the engine does not keep this: %s", why)
			}
			if f.Parallel {
				t.Parallel()
			}
			c.test(t, f)
		})
	}
}
