package run

import (
	"errors"
	"math"
	"strings"
	"testing"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/group"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// TestEndingsOfAnyExecutorCanBeRead has ends that an executor of somebody else
// may give: the outcome must be readable whatever they say.
func TestEndingsOfAnyExecutorCanBeRead(t *testing.T) {
	t.Parallel()
	config := usualConfig()
	for name, te := range map[string]*bullpen.TaskError{
		"an exit code below -1":  {Outcome: bullpen.Failed, ExitCode: -5},
		"the largest exit code":  {Outcome: bullpen.Crashed, ExitCode: math.MaxInt32},
		"an outcome of its own":  {Outcome: 77, ExitCode: -1},
		"no outcome":             {ExitCode: -1},
		"a cause and no message": {Outcome: bullpen.Failed, Err: errors.New("cause"), ExitCode: -1},
	} {
		s := &record.Job{ID: newID(), Job: job.Job{Name: "a"}}
		a := &attempt{queue: &Node{Groups: group.New(&jobs.Jobs{Config: config})}, stored: s}
		end := attemptEnd{err: te, at: moment(1), result: bullpen.Result{Stats: bullpen.Stats{PeakMemory: -1, Ran: -1}}}
		d := decide(&s.Job, config.Retry, config.MaxResult, &a.tries, end, 0.5)
		e := a.ending(decision{step: stepRecord, outcome: d.outcome, reason: job.Exhausted}, end)
		if d.step == stepRecord && int(d.outcome) >= bullpen.OutcomeCount {
			t.Errorf("%s: it is to be recorded as %v, which is no outcome", name, d.outcome)
		}
		if _, err := record.DecodeEnd(e.ID, e.Encode()); err != nil {
			t.Errorf("%s: its outcome cannot be read: %v", name, err)
		}
		if _, err := record.DecodeTries(e.ID, a.tries.Encode(e.ID)); err != nil {
			t.Errorf("%s: its attempts cannot be read: %v", name, err)
		}
	}
}

// TestEvidenceIsBounded has a task that fails with all that it can say: with its
// payload it must fit into a message of a server that nobody has configured.
func TestEvidenceIsBounded(t *testing.T) {
	t.Parallel()
	config := usualConfig()
	s := &record.Job{ID: newID(), Job: job.Job{Name: "a", Payload: make([]byte, config.MaxPayload)}}
	a := &attempt{queue: &Node{Groups: group.New(&jobs.Jobs{Config: config})}, stored: s}
	a.seen.queue = a.queue
	for range 1000 {
		a.seen.Log(bullpen.LogLine{Text: strings.Repeat("line ", 100)})
	}
	long := strings.Repeat("what went wrong ", 1<<17) // 2 MiB
	for name, te := range map[string]*bullpen.TaskError{
		"message": {Message: long}, "stack": {Stack: long}, "detail": {Detail: long}, "type": {Type: long}, "cause": {Err: errors.New(long)},
	} {
		te.Outcome = bullpen.Failed
		e := a.ending(decision{step: stepRecord, outcome: bullpen.Failed, reason: job.Exhausted}, attemptEnd{err: te, at: moment(1)})
		e.Job = s.Encode()
		if n := len(e.Encode()); n > 1<<20 {
			t.Errorf("with a long %s the record of a dead job has %d bytes: a server takes %d", name, n, 1<<20)
		}
	}
	e := a.ending(decision{step: stepRecord, outcome: bullpen.Lost, reason: job.Corrupt}, attemptEnd{err: errors.New(long), at: moment(1)})
	e.Job = s.Encode()
	if n := len(e.Encode()); n > 1<<20 {
		t.Errorf("with a long error the record of a dead job has %d bytes: a server takes %d", n, 1<<20)
	}
}

// TestLinesThatAreKeptCanBeRead has a config that keeps many lines.
func TestLinesThatAreKeptCanBeRead(t *testing.T) {
	t.Parallel()
	config := usualConfig()
	config.Keep.Lines, config.Keep.LineBytes = record.MostPairs, 1<<20 // the most that a queue takes
	a := &attempt{queue: &Node{Groups: group.New(&jobs.Jobs{Config: config})}, stored: &record.Job{ID: newID()}}
	a.seen.queue = a.queue
	for range 2 * record.MostPairs {
		a.seen.Log(bullpen.LogLine{Text: "line"})
	}
	e := a.ending(decision{step: stepRecord}, attemptEnd{at: moment(1)})
	if _, err := record.DecodeEnd(e.ID, e.Encode()); err != nil {
		t.Errorf("Keep.Lines %d is taken, and an outcome with so many lines cannot be read: %v", record.MostPairs, err)
	}
}
