package queue

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// TestWhatIsTakenCanBeRead has jobs at the edge of what check takes: one that is
// taken must come back out of the store as it was.
func TestWhatIsTakenCanBeRead(t *testing.T) {
	t.Parallel()
	config := Config{Store: Memory()}.withDefaults()
	many := slices.Repeat([]bullpen.Outcome{bullpen.Failed}, 12)
	for name, j := range map[string]Job{
		"CPU that is no number":        {Limits: bullpen.Limits{CPU: math.NaN()}},
		"CPU without end":              {Limits: bullpen.Limits{CPU: math.Inf(1)}},
		"CPU below zero by its sign":   {Limits: bullpen.Limits{CPU: math.Copysign(0, -1)}},
		"outcomes named several times": {Retry: Retry{On: append(many, bullpen.Panic)}},
	} {
		if j.check(&config) != nil {
			continue // refused, which is well
		}
		s := &stored{id: newID(), job: j}
		got, err := decodeJob(s.id, s.encode())
		if err != nil {
			t.Errorf("%s: it is taken, and cannot be read: %v", name, err)
			continue
		}
		for _, o := range bullpen.Outcomes() {
			if got.job.Retry.allows(o) != j.Retry.allows(o) {
				t.Errorf("%s: it comes back with other outcomes to try after: %v", name, got.job.Retry.On)
			}
		}
		if !reflect.DeepEqual(got.job.Limits, j.Limits) && j.Limits.CPU != 0 {
			t.Errorf("%s: it comes back with %+v", name, got.job.Limits)
		}
	}
}

// TestTimesFarAway has a deadline that stands for never, and a time to begin.
func TestTimesFarAway(t *testing.T) {
	t.Parallel()
	for _, when := range []time.Time{
		time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Unix(1<<40, 0),
		time.Unix(1<<55, 0),
		time.Unix(math.MaxInt64-62135596801, 999_999_999), // the last that compares
	} {
		s := &stored{id: newID(), job: Job{Deadline: when, At: when}}
		got, err := decodeJob(s.id, s.encode())
		if err != nil {
			t.Errorf("%v: %v", when, err)
			continue
		}
		if soon := time.Now().AddDate(1000, 0, 0); got.job.late(soon) || got.job.At.Before(soon) {
			t.Errorf("a time in the year %d comes back as the year %d", when.Year(), got.job.Deadline.Year())
		}
	}
}

// TestEndingsOfAnyExecutorCanBeRead has ends that an executor of somebody else
// may give: the outcome must be readable whatever they say.
func TestEndingsOfAnyExecutorCanBeRead(t *testing.T) {
	t.Parallel()
	config := Config{Store: Memory()}.withDefaults()
	for name, te := range map[string]*bullpen.TaskError{
		"an exit code below -1":  {Outcome: bullpen.Failed, ExitCode: -5},
		"the largest exit code":  {Outcome: bullpen.Crashed, ExitCode: math.MaxInt32},
		"an outcome of its own":  {Outcome: 77, ExitCode: -1},
		"no outcome":             {ExitCode: -1},
		"a cause and no message": {Outcome: bullpen.Failed, Err: errors.New("cause"), ExitCode: -1},
	} {
		s := &stored{id: newID(), job: Job{Name: "a"}}
		a := &attempt{queue: &Queue{config: config}, stored: s}
		end := attemptEnd{err: te, at: stamp(1), result: bullpen.Result{Stats: bullpen.Stats{PeakMemory: -1, Ran: -1}}}
		d := decide(&s.job, config.Retry, config.MaxResult, &a.tries, end, 0.5)
		e := a.ending(decision{step: stepRecord, outcome: d.outcome, reason: Exhausted}, end)
		if d.step == stepRecord && int(d.outcome) >= bullpen.OutcomeCount {
			t.Errorf("%s: it is to be recorded as %v, which is no outcome", name, d.outcome)
		}
		if _, err := decodeEnding(e.id, e.encode()); err != nil {
			t.Errorf("%s: its outcome cannot be read: %v", name, err)
		}
		if _, err := decodeTries(e.id, a.tries.encode(e.id)); err != nil {
			t.Errorf("%s: its attempts cannot be read: %v", name, err)
		}
	}
}

// TestEvidenceIsBounded has a task that fails with all that it can say: with its
// payload it must fit into a message of a server that nobody has configured.
func TestEvidenceIsBounded(t *testing.T) {
	t.Parallel()
	config := Config{Store: Memory()}.withDefaults()
	s := &stored{id: newID(), job: Job{Name: "a", Payload: make([]byte, config.MaxPayload)}}
	a := &attempt{queue: &Queue{config: config}, stored: s}
	a.seen.queue = a.queue
	for range 1000 {
		a.seen.Log(bullpen.LogLine{Text: strings.Repeat("line ", 100)})
	}
	long := strings.Repeat("what went wrong ", 1<<17) // 2 MiB
	for name, te := range map[string]*bullpen.TaskError{
		"message": {Message: long}, "stack": {Stack: long}, "detail": {Detail: long}, "type": {Type: long}, "cause": {Err: errors.New(long)},
	} {
		te.Outcome = bullpen.Failed
		e := a.ending(decision{step: stepRecord, outcome: bullpen.Failed, reason: Exhausted}, attemptEnd{err: te, at: stamp(1)})
		e.job = s.encode()
		if n := len(e.encode()); n > 1<<20 {
			t.Errorf("with a long %s the record of a dead job has %d bytes: a server takes %d", name, n, 1<<20)
		}
	}
	e := a.ending(decision{step: stepRecord, outcome: bullpen.Lost, reason: Corrupt}, attemptEnd{err: errors.New(long), at: stamp(1)})
	e.job = s.encode()
	if n := len(e.encode()); n > 1<<20 {
		t.Errorf("with a long error the record of a dead job has %d bytes: a server takes %d", n, 1<<20)
	}
}

// TestLinesThatAreKeptCanBeRead has a config that keeps many lines.
func TestLinesThatAreKeptCanBeRead(t *testing.T) {
	t.Parallel()
	config := Config{Store: Memory(), Keep: Keep{Lines: 2 * mostPairs, LineBytes: 1 << 20}}
	if config.check() != nil {
		return // refused, which is well
	}
	a := &attempt{queue: &Queue{config: config.withDefaults()}, stored: &stored{id: newID()}}
	a.seen.queue = a.queue
	for range 2 * mostPairs {
		a.seen.Log(bullpen.LogLine{Text: "line"})
	}
	e := a.ending(decision{step: stepRecord}, attemptEnd{at: stamp(1)})
	if _, err := decodeEnding(e.id, e.encode()); err != nil {
		t.Errorf("Keep.Lines %d is taken, and an outcome with so many lines cannot be read: %v", 2*mostPairs, err)
	}
}
