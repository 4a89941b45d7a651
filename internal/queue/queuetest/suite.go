// Package queuetest is the contract of package queue as a suite of tests, which
// every store of a queue passes with nothing changed but its address:
//
//	func TestContract(t *testing.T) {
//		store := queue.Memory()
//		queuetest.Run(t, queuetest.Subject{
//			Open: func(t *testing.T, c queue.Config) *queue.Queue {
//				c.Store = store
//				return queuetest.Open(t, c)
//			},
//		})
//	}
//
// It uses the public API alone. Each clause is a subtest with a namespace of its
// own. What a store cannot do, its Subject says with the reason, and the clauses
// that need it are skipped with these words. Nothing else is skipped.
//
// Random tests print their seed; BULLPEN_SEED repeats it.
package queuetest

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/queue"
)

// Subject is the store under test.
type Subject struct {
	// Open opens a queue on the store; Config.Store is for it to set. The suite
	// opens queues of one namespace one after the other, where what was stored
	// has to be there again, and, unless OneNode says why not, at the same time.
	// Queues of different namespaces have nothing to do with each other and are
	// open at the same time when Parallel says so. The suite closes what Open
	// gives. Open ends t when it cannot open.
	Open func(t *testing.T, c queue.Config) *queue.Queue
	// Lease is the shortest that the store keeps well; 0 is 1 s. The suite waits
	// for the end of some.
	Lease time.Duration
	// OneNode says why not two queues of one namespace can be open at once; empty
	// where they can.
	OneNode string
	// Without names other clauses that the store cannot keep, and says why.
	Without map[string]string
	// Only names the clauses to run, for a quick look; empty is all of them.
	Only []string
	// Parallel runs the clauses that measure no times at the same time.
	Parallel bool
}

// A clause is one part of the contract.
type clause struct {
	name string
	test func(f *fixture)
	// nodes says that it needs two queues on one store at once.
	nodes bool
	// alone says that it measures times, and runs beside no other.
	alone bool
}

func contract() []clause {
	return slices.Concat(timed(), enqueuing(), running(), looking(), working(), scheduling(), together(), grouping())
}

// enqueuing are the clauses on what goes in.
func enqueuing() []clause {
	return []clause{
		{name: "RoundTrip", test: testRoundTrip},
		{name: "Defaults", test: testDefaults},
		{name: "IDsAreUnique", test: testUnique},
		{name: "FaultsOfJobs", test: testJobFaults},
		{name: "FaultsOfConfigs", test: testConfigFaults},
		{name: "FaultsOfCalls", test: testCallFaults},
		{name: "Bulk", test: testBulk},
		{name: "BulkWithKeys", test: testBulkKeys},
		{name: "Full", test: testFull},
		{name: "Closed", test: testClosed},
		{name: "PrioritiesShare", test: testPriorities},
		{name: "PrioritiesStrict", test: testStrict},
		{name: "Key", test: testKey},
		{name: "KeyAfterTheEnd", test: testKeyEnds},
		{name: "KeyOfQueue", test: testKeyOfQueue},
		{name: "KeyRace", test: testKeyRace},
		{name: "KeyRaceOfDifferentJobs", test: testKeyRaceMixed},
		{name: "KeySurvivesReopen", test: testKeyReopen},
	}
}

// running are the clauses on what becomes of a job.
func running() []clause {
	return []clause{
		{name: "DeadlineBeforeStart", test: testDeadlineBefore},
		{name: "DeadlineWhileRunning", test: testDeadlineRunning},
		{name: "DeadlineWhileRetrying", test: testDeadlineRetrying},
		{name: "Retry", test: testRetry},
		{name: "RetryOnlyWhatThePolicySays", test: testRetryPolicy},
		{name: "RetryAfterMoreThanALease", test: testRetryFar},
		{name: "RetrySurvivesReopen", test: testRetryReopen},
		{name: "LostOnlyWhenIdempotent", test: testLost},
		{name: "Quarantine", test: testQuarantine},
		{name: "CrashesAndFailuresApart", test: testBudgets},
		{name: "HandlerKnowsItsAttempt", test: testAttemptOf},
		{name: "NeverStarted", test: testNeverStarted},
		{name: "NeverStartedDoesNotSpin", test: testNoSpin},
		{name: "HoldingOffEnds", test: testHoldOffEnds},
		{name: "ExecutorClosed", test: testExecutorClosed},
		{name: "UnknownTask", test: testUnknownTask},
	}
}

// looking are the clauses on what is seen of jobs and done to them.
func looking() []clause {
	return []clause{
		{name: "Observed", test: testObserved},
		{name: "ObservedWithinBounds", test: testObservedBounds},
		{name: "ResultTooLarge", test: testResultBound},
		{name: "States", test: testStates},
		{name: "List", test: testList},
		{name: "ListNewest", test: testListNewest},
		{name: "ListSelects", test: testListSelects},
		{name: "Counts", test: testCounts},
		{name: "Wait", test: testWait},
		{name: "WaitFromAnotherNode", test: testWaitElsewhere, nodes: true},
		{name: "SeenFromAnotherNode", test: testSeenElsewhere, nodes: true},
		{name: "CancelWaiting", test: testCancelWaiting},
		{name: "CancelRunning", test: testCancelRunning},
		{name: "CancelEnded", test: testCancelEnded},
		{name: "CancelRacesWithTheEnd", test: testCancelRace},
		{name: "CancelByAnotherNode", test: testCancelElsewhere, nodes: true},
		{name: "Pause", test: testPause},
		{name: "PauseSurvivesReopen", test: testPauseReopen},
		{name: "PauseOnAllNodes", test: testPauseElsewhere, nodes: true},
		{name: "Dead", test: testDead},
		{name: "RetryDead", test: testRetryDead},
		{name: "RetryDone", test: testRetryDone},
		{name: "PayloadKept", test: testPayloadKept},
		{name: "RetryDeadRace", test: testRetryDeadRace},
		{name: "RemoveDead", test: testRemoveDead},
		{name: "DeadCauses", test: testDeadCauses},
		{name: "RetryDeadAll", test: testRetryDeadAll},
		{name: "RetryDeadAllWhileJobsDie", test: testRetryDeadAllRace},
		{name: "RemoveDeadAll", test: testRemoveDeadAll},
		{name: "Compensate", test: testCompensate},
		{name: "CompensateOnlyWhatStarted", test: testNoCompensation},
		{name: "Bury", test: testBury},
	}
}

// working are the clauses on Work, on nodes and on all together.
func working() []clause {
	return []clause{
		{name: "BackPressure", test: testBackPressure},
		{name: "BackPressureOfPriorities", test: testBackPressureMixed},
		{name: "Concurrency", test: testConcurrency},
		{name: "PlacesComeAndGo", test: testPlaces},
		{name: "TwoWorkOnOneNode", test: testTwoWork},
		{name: "TwoNodes", test: testTwoNodes, nodes: true},
		{name: "GraceLetsFinish", test: testGrace},
		{name: "GraceEnds", test: testGraceEnds},
		{name: "GraceOfNothing", test: testNoGrace},
		{name: "CloseWhileWorking", test: testCloseWorking},
		{name: "CloseGivesBack", test: testCloseGivesBack},
		{name: "ReopenKeepsAll", test: testReopen},
		{name: "StatsAndEvents", test: testStats},
		{name: "NothingIsLeftBehind", test: testNothingLeft},
		{name: "Random", test: testRandom},
		{name: "RandomWithRestarts", test: testRandomRestarts},
		{name: "RandomOnTwoNodes", test: testRandomNodes, nodes: true},
	}
}

// timed are the clauses that measure times.
func timed() []clause {
	return []clause{
		{name: "Delay", test: testDelay, alone: true},
		{name: "BackoffWithinBounds", test: testBackoff, alone: true},
		{name: "CrashRedeliveredAtOnce", test: testCrashAtOnce, alone: true},
	}
}

// Run holds the store of s against the contract.
func Run(t *testing.T, s Subject) {
	t.Helper()
	if s.Lease == 0 {
		s.Lease = time.Second
	}
	all := contract()
	for name, why := range s.Without {
		if why == "" || !slices.ContainsFunc(all, func(c clause) bool { return c.name == name }) {
			t.Fatalf("Without names %q with the reason %q: want the name of a clause and a reason", name, why)
		}
	}
	for _, name := range s.Only {
		if !slices.ContainsFunc(all, func(c clause) bool { return c.name == name }) {
			t.Fatalf("Only names %q, which is no clause", name)
		}
	}
	for _, c := range all {
		if len(s.Only) > 0 && !slices.Contains(s.Only, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if why := s.Without[c.name]; why != "" {
				t.Skipf("the store does not keep this: %s", why)
			}
			if c.nodes && s.OneNode != "" {
				t.Skipf("there is one node at a time: %s", s.OneNode)
			}
			if s.Parallel && !c.alone {
				t.Parallel()
			}
			c.test(newFixture(t, s))
		})
	}
}

// lastNamespace makes namespaces different from each other, and firstNamespace
// those of several runs on one server.
var (
	lastNamespace  atomic.Uint64
	firstNamespace = time.Now().UnixMilli()
)

func newNamespace() string { return fmt.Sprintf("t%d-%d", firstNamespace, lastNamespace.Add(1)) }
