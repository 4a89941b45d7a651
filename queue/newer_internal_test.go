package queue

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// unknownOutcome is one that only a later version has.
const unknownOutcome = bullpen.Outcome(bullpen.OutcomeCount + 2)

// laterEnd is a job that a later version has ended, and that is still in the queue.
type laterEnd struct {
	name  string
	stays bool // in the queue: what follows from its end is not known here
	write func(e *record.End) []byte
}

func laterEnds() []laterEnd {
	return []laterEnd{
		{"an outcome that is not known", false, func(e *record.End) []byte {
			e.Outcome, e.Reason = unknownOutcome, job.Final
			e.Failure = &bullpen.TaskError{Outcome: unknownOutcome, Message: "made way", ExitCode: -1}
			e.Tries = record.Tries{Started: 1, History: []job.Attempt{{Number: 1, Outcome: unknownOutcome, ExitCode: -1}}}
			return e.Encode()
		}},
		{"a good outcome that is not known", false, func(e *record.End) []byte {
			e.Outcome = unknownOutcome
			return e.Encode()
		}},
		{"a record in another form", true, func(e *record.End) []byte {
			b := e.Encode()
			b[0] = record.Version + 1
			return b
		}},
	}
}

// What a later version has recorded is neither taken for damage nor overwritten,
// and whoever asks gets an error.
func TestOutcomesOfALaterVersion(t *testing.T) {
	t.Parallel()
	for _, c := range laterEnds() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { c.run(t) })
		})
	}
}

func (c *laterEnd) run(t *testing.T) {
	t.Helper()
	s := &memory.Store{Shared: true}
	raw := rawEngine(t, s)
	id := newID()
	waiting := &record.Job{ID: id, Job: job.Job{Name: "a", Queue: "default", Retry: job.Retry{On: []bullpen.Outcome{unknownOutcome}}}, Again: true}
	record := c.write(&record.End{ID: id, Queue: "default", Name: "a", Ended: moment(0)})
	putRaw(t, raw, engine.Put{Subject: engine.JobSubject(waiting.Consumer(), id), Data: waiting.Encode()})
	putRaw(t, raw, engine.Put{Stream: engine.Outcomes, Subject: "out." + id, Data: record})
	q := openOn(t, Config{Store: s})
	workOn(t, q, newTeam(1, echoes), WorkConfig{})
	<-time.After(5 * time.Minute)

	if m, err := raw.Get(t.Context(), engine.Outcomes, "out."+id); err != nil || !bytes.Equal(m.Data, record) {
		t.Errorf("the outcome is not what the later version wrote: %v", err)
	}
	_, err := raw.Get(t.Context(), engine.Jobs, "job.*.*."+id)
	if stays := err == nil; stays != c.stays {
		t.Errorf("the job is in the queue: %v, want %v (%v)", stays, c.stays, err)
	}
	if n := q.Stats().Damaged; n > 0 {
		t.Errorf("%d damaged records are reported", n)
	}
	if _, err := q.Wait(t.Context(), id); !errors.Is(err, job.ErrNewer) || !strings.Contains(err.Error(), "later version") || strings.Contains(err.Error(), "damaged") {
		t.Errorf("Wait: %v", err)
	}
	if info, err := q.Get(t.Context(), id); c.stays {
		if !errors.Is(err, job.ErrNewer) {
			t.Errorf("Get: %+v, %v", info, err)
		}
	} else if err != nil || info.Outcome != unknownOutcome || !errors.Is(info.Err, job.ErrNewer) {
		t.Errorf("Get: %+v, %v", info, err)
	}
	for _, states := range [][]job.State{{job.Done, job.Dead}, {job.Dead}} {
		page, err := q.List(t.Context(), job.Filter{States: states})
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(page.Jobs, func(i job.Info) bool { return i.ID == id }); i >= 0 {
			if got := page.Jobs[i]; !errors.Is(got.Err, job.ErrNewer) || got.Reason == job.Corrupt {
				t.Errorf("in the list of those that are %v it is %+v", states, got)
			}
			return
		}
	}
	t.Error("no list has it")
}
