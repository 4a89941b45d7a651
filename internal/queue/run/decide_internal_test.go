package run

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

var usual = usualConfig().Retry

// attempted is one case of decide.
type attempted struct {
	name     string
	job      job.Job
	on       []bullpen.Outcome // of the policy; nil is the default
	before   record.Tries
	err      error
	result   int // bytes
	deaths   int // of workers that had not said that they started it
	stopped  bool
	want     decision
	counters record.Tries // as they must be after
}

// now is when the attempts of these tests end; past and future are deadlines.
var (
	now    = moment(0)
	past   = job.Job{Deadline: now}
	future = job.Job{Deadline: now.Add(time.Hour)}
)

func recorded(o bullpen.Outcome, r job.Reason) decision {
	return decision{step: stepRecord, outcome: o, reason: r}
}

func endsByItself() []attempted {
	again := decision{step: stepRetry, delay: 1500 * time.Millisecond}
	final := func(o bullpen.Outcome) *bullpen.TaskError { te := failure(o); te.Retryable = false; return te }
	one := record.Tries{Started: 1}
	failed := record.Tries{Started: 1, Failures: 1}
	cases := []attempted{
		{name: "a good end at once", want: recorded(bullpen.OK, "")},
		{name: "a good end after its deadline", job: past, want: recorded(bullpen.OK, "")},
		{name: "a good end at last", before: failed, want: recorded(bullpen.OK, ""), counters: record.Tries{Started: 2, Failures: 1}},
		{name: "a good end of what was stopped", stopped: true, want: recorded(bullpen.OK, "")},
		{name: "the largest result", result: 100, want: recorded(bullpen.OK, "")},
		{name: "a result too large", result: 101, want: recorded(bullpen.Output, job.Final), counters: one},
		{name: "another try is of no use", err: final(bullpen.Failed), want: recorded(bullpen.Failed, job.Final), counters: one},
		{name: "of no use, and late", job: past, err: final(bullpen.Failed), want: recorded(bullpen.Failed, job.Final), counters: one},
		{name: "output too large for the executor", err: failure(bullpen.Output), want: recorded(bullpen.Output, job.Final), counters: one},
		{name: "output, and the policy tries again", on: []bullpen.Outcome{bullpen.Output}, err: failure(bullpen.Output), want: again, counters: failed},
		{name: "lost", err: failure(bullpen.Lost), want: recorded(bullpen.Lost, job.Final), counters: one},
		{name: "lost, idempotent", job: job.Job{Idempotent: true}, err: failure(bullpen.Lost), want: again, counters: failed},
		{
			name: "lost, idempotent, for the last time", job: job.Job{Idempotent: true}, before: record.Tries{Started: 4, Failures: 4},
			err: failure(bullpen.Lost), want: recorded(bullpen.Lost, job.Exhausted), counters: record.Tries{Started: 5, Failures: 5},
		},
		{name: "lost, idempotent, late", job: job.Job{Idempotent: true, Deadline: now}, err: failure(bullpen.Lost), want: recorded(bullpen.Lost, job.Expired), counters: failed},
		{name: "a wrapped error", err: fmt.Errorf("by the pool: %w", failure(bullpen.Panic)), want: again, counters: failed},
		{name: "time is over for the attempt", err: final(bullpen.Timeout), want: again, counters: failed},
		{name: "time is over for the job", job: past, err: final(bullpen.Timeout), want: recorded(bullpen.Timeout, job.Expired), counters: one},
	}
	for _, o := range []bullpen.Outcome{bullpen.Failed, bullpen.Panic, bullpen.Timeout, bullpen.Protocol} {
		late := attempted{name: "late: ", job: past, err: failure(o), want: recorded(o, job.Expired), counters: failed}
		if o == bullpen.Timeout {
			late.counters = one
		}
		last := attempted{name: "the last: ", before: record.Tries{Started: 6, Failures: 4, Crashes: 2}, err: failure(o), want: recorded(o, job.Exhausted), counters: record.Tries{Started: 7, Failures: 5, Crashes: 2}}
		never := attempted{name: "not by this policy: ", on: []bullpen.Outcome{}, err: failure(o), want: recorded(o, job.Final), counters: one}
		first := attempted{name: "the first: ", job: future, err: failure(o), want: again, counters: failed}
		for _, c := range []attempted{late, last, never, first} {
			c.name += o.String()
			cases = append(cases, c)
		}
	}
	return cases
}

func endsOfOthers() []attempted {
	atOnce, back := decision{step: stepRetry}, decision{step: stepGiveBack}
	one := record.Tries{Started: 1}
	cases := []attempted{
		{name: "canceled by its executor", err: failure(bullpen.Canceled), want: atOnce, counters: one},
		{name: "canceled by this program", stopped: true, err: failure(bullpen.Canceled), want: atOnce, counters: one},
		{name: "canceled by its deadline", job: past, err: failure(bullpen.Canceled), want: recorded(bullpen.Timeout, job.Expired), counters: one},
		{name: "canceled by this program, late", job: past, stopped: true, err: failure(bullpen.Canceled), want: atOnce, counters: one},
		{name: "closed", err: bullpen.ErrClosed, want: back},
		{name: "full", err: bullpen.ErrOverloaded, want: back},
		{name: "no worker starts", err: fmt.Errorf("%w: no such file", bullpen.ErrStart), want: back},
		{name: "something else before the start", err: errors.New("else"), want: back},
		{name: "closed, late", job: past, err: bullpen.ErrClosed, want: recorded(bullpen.Timeout, job.Expired)},
		{name: "closed after many tries", before: record.Tries{Started: 9, Failures: 4, Refused: 4}, err: bullpen.ErrClosed, want: back, counters: record.Tries{Started: 9, Failures: 4, Refused: 4}},
	}
	for _, err := range []error{bullpen.ErrUnknownTask, bullpen.ErrRefused} {
		cases = append(cases,
			attempted{name: "once: " + err.Error(), err: err, want: decision{step: stepRetry, delay: 750 * time.Millisecond}, counters: record.Tries{Refused: 1}},
			attempted{name: "for the last time: " + err.Error(), before: record.Tries{Refused: 4}, err: err, want: recorded(bullpen.Failed, job.Refused), counters: record.Tries{Refused: 5}},
			attempted{name: "late: " + err.Error(), job: past, err: err, want: recorded(bullpen.Timeout, job.Expired)},
		)
	}
	for _, o := range []bullpen.Outcome{bullpen.Crashed, bullpen.Memory, bullpen.Protocol, bullpen.Timeout, bullpen.Lost, bullpen.Canceled} {
		cases = append(cases, attempted{
			name: "three workers denied it: " + o.String(), deaths: 3, err: failure(o), want: recorded(o, job.Quarantined), counters: record.Tries{Started: 1, Crashes: 3},
		})
	}
	cases = append(cases,
		attempted{name: "two workers denied it, then it was closed", deaths: 2, err: bullpen.ErrClosed, want: back, counters: record.Tries{Crashes: 2}},
		attempted{name: "closed after the last worker", before: record.Tries{Crashes: 2}, deaths: 1, err: bullpen.ErrClosed, want: recorded(bullpen.Crashed, job.Quarantined), counters: record.Tries{Crashes: 3}},
		attempted{name: "two workers denied it, the third ran it", deaths: 2, err: failure(bullpen.Panic), want: decision{step: stepRetry, delay: 1500 * time.Millisecond}, counters: record.Tries{Started: 1, Failures: 1, Crashes: 2}},
	)
	for _, o := range []bullpen.Outcome{bullpen.Crashed, bullpen.Memory} {
		for _, on := range [][]bullpen.Outcome{nil, {}} {
			cases = append(cases,
				attempted{name: "the worker died: " + o.String(), on: on, err: failure(o), want: atOnce, counters: record.Tries{Started: 1, Crashes: 1}},
				attempted{name: "late, the worker died: " + o.String(), on: on, job: past, err: failure(o), want: recorded(o, job.Expired), counters: record.Tries{Started: 1, Crashes: 1}},
				attempted{name: "the last worker died: " + o.String(), on: on, before: record.Tries{Started: 6, Failures: 4, Crashes: 2}, err: failure(o), want: recorded(o, job.Quarantined), counters: record.Tries{Started: 7, Failures: 4, Crashes: 3}},
				attempted{name: "late, the last worker died: " + o.String(), on: on, job: past, before: record.Tries{Started: 2, Crashes: 2}, err: failure(o), want: recorded(o, job.Quarantined), counters: record.Tries{Started: 3, Crashes: 3}},
			)
		}
	}
	return cases
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, c := range slices.Concat(endsByItself(), endsOfOthers()) {
		policy, random := usual, 0.5
		if c.on != nil {
			policy.On = c.on
		}
		if c.before.Failures == 0 && c.counters.Failures > 0 {
			policy.Backoff = 2 * time.Second
		}
		got := c.before
		end := attemptEnd{err: c.err, at: now, node: "n", interrupted: c.stopped, result: bullpen.Result{Payload: make([]byte, c.result), Stats: bullpen.Stats{Deaths: c.deaths}}}
		if d := decide(&c.job, policy, 100, &got, end, random); d != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, d, c.want)
		}
		added := got.Started - c.before.Started
		if len(got.History) != added {
			t.Errorf("%s: %d attempts are noted and %d counted", c.name, len(got.History), added)
		}
		got.History = nil
		if want := c.counters; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: the counts are %+v, want %+v", c.name, got, want)
		}
	}
}

// TestDecideEnds lets jobs meet one end again and again: whatever it is, only
// what no job is to blame for goes on for ever.
func TestDecideEnds(t *testing.T) {
	t.Parallel()
	for _, o := range bullpen.Outcomes()[1:] {
		for _, on := range [][]bullpen.Outcome{nil, {}, {bullpen.Failed, bullpen.Panic, bullpen.Timeout, bullpen.Crashed, bullpen.Memory, bullpen.Output, bullpen.Protocol}} {
			for _, idempotent := range []bool{false, true} {
				policy := job.Retry{On: on, Attempts: 4, Crashes: 2}.Over(usual)
				job, known := &job.Job{Idempotent: idempotent}, record.Tries{}
				var d decision
				n := 0
				for n < 10 && (n == 0 || d.step == stepRetry) {
					n++
					d = decide(job, policy, 0, &known, attemptEnd{err: failure(o), at: now}, 0)
				}
				switch {
				case o == bullpen.Canceled:
					if d.step != stepRetry || d.delay != 0 {
						t.Errorf("canceled by others: %+v, want it to run again", d)
					}
				case d.step != stepRecord || d.outcome != o || n > 4:
					t.Errorf("%v, policy %v: after %d attempts %+v, want it recorded after 4 at most", o, on, n, d)
				case d.reason == "":
					t.Errorf("%v: it ends without a reason", o)
				}
			}
		}
	}
}
