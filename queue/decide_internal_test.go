package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

var usual = Config{}.withDefaults().Retry

// attempted is one case of decide.
type attempted struct {
	name     string
	job      Job
	on       []bullpen.Outcome // of the policy; nil is the default
	before   tries
	err      error
	result   int // bytes
	deaths   int // of workers that had not said that they started it
	stopped  bool
	want     decision
	counters tries // as they must be after
}

// now is when the attempts of these tests end; past and future are deadlines.
var (
	now    = stamp(0)
	past   = Job{Deadline: now}
	future = Job{Deadline: now.Add(time.Hour)}
)

func recorded(o bullpen.Outcome, r Reason) decision {
	return decision{step: stepRecord, outcome: o, reason: r}
}

func endsByItself() []attempted {
	again := decision{step: stepRetry, delay: 1500 * time.Millisecond}
	final := func(o bullpen.Outcome) *bullpen.TaskError { te := failure(o); te.Retryable = false; return te }
	one := tries{started: 1}
	failed := tries{started: 1, failures: 1}
	cases := []attempted{
		{name: "a good end at once", want: recorded(bullpen.OK, "")},
		{name: "a good end after its deadline", job: past, want: recorded(bullpen.OK, "")},
		{name: "a good end at last", before: failed, want: recorded(bullpen.OK, ""), counters: tries{started: 2, failures: 1}},
		{name: "a good end of what was stopped", stopped: true, want: recorded(bullpen.OK, "")},
		{name: "the largest result", result: 100, want: recorded(bullpen.OK, "")},
		{name: "a result too large", result: 101, want: recorded(bullpen.Output, Final), counters: one},
		{name: "another try is of no use", err: final(bullpen.Failed), want: recorded(bullpen.Failed, Final), counters: one},
		{name: "of no use, and late", job: past, err: final(bullpen.Failed), want: recorded(bullpen.Failed, Final), counters: one},
		{name: "output too large for the executor", err: failure(bullpen.Output), want: recorded(bullpen.Output, Final), counters: one},
		{name: "output, and the policy tries again", on: []bullpen.Outcome{bullpen.Output}, err: failure(bullpen.Output), want: again, counters: failed},
		{name: "lost", err: failure(bullpen.Lost), want: recorded(bullpen.Lost, Final), counters: one},
		{name: "lost, idempotent", job: Job{Idempotent: true}, err: failure(bullpen.Lost), want: again, counters: failed},
		{
			name: "lost, idempotent, for the last time", job: Job{Idempotent: true}, before: tries{started: 4, failures: 4},
			err: failure(bullpen.Lost), want: recorded(bullpen.Lost, Exhausted), counters: tries{started: 5, failures: 5},
		},
		{name: "lost, idempotent, late", job: Job{Idempotent: true, Deadline: now}, err: failure(bullpen.Lost), want: recorded(bullpen.Lost, Expired), counters: failed},
		{name: "a wrapped error", err: fmt.Errorf("by the pool: %w", failure(bullpen.Panic)), want: again, counters: failed},
		{name: "time is over for the attempt", err: final(bullpen.Timeout), want: again, counters: failed},
		{name: "time is over for the job", job: past, err: final(bullpen.Timeout), want: recorded(bullpen.Timeout, Expired), counters: one},
	}
	for _, o := range []bullpen.Outcome{bullpen.Failed, bullpen.Panic, bullpen.Timeout, bullpen.Protocol} {
		late := attempted{name: "late: ", job: past, err: failure(o), want: recorded(o, Expired), counters: failed}
		if o == bullpen.Timeout {
			late.counters = one
		}
		last := attempted{name: "the last: ", before: tries{started: 6, failures: 4, crashes: 2}, err: failure(o), want: recorded(o, Exhausted), counters: tries{started: 7, failures: 5, crashes: 2}}
		never := attempted{name: "not by this policy: ", on: []bullpen.Outcome{}, err: failure(o), want: recorded(o, Final), counters: one}
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
	one := tries{started: 1}
	cases := []attempted{
		{name: "canceled by its executor", err: failure(bullpen.Canceled), want: atOnce, counters: one},
		{name: "canceled by this program", stopped: true, err: failure(bullpen.Canceled), want: atOnce, counters: one},
		{name: "canceled by its deadline", job: past, err: failure(bullpen.Canceled), want: recorded(bullpen.Timeout, Expired), counters: one},
		{name: "canceled by this program, late", job: past, stopped: true, err: failure(bullpen.Canceled), want: atOnce, counters: one},
		{name: "closed", err: bullpen.ErrClosed, want: back},
		{name: "full", err: bullpen.ErrOverloaded, want: back},
		{name: "no worker starts", err: fmt.Errorf("%w: no such file", bullpen.ErrStart), want: back},
		{name: "something else before the start", err: errors.New("else"), want: back},
		{name: "closed, late", job: past, err: bullpen.ErrClosed, want: recorded(bullpen.Timeout, Expired)},
		{name: "closed after many tries", before: tries{started: 9, failures: 4, refused: 4}, err: bullpen.ErrClosed, want: back, counters: tries{started: 9, failures: 4, refused: 4}},
	}
	for _, err := range []error{bullpen.ErrUnknownTask, bullpen.ErrRefused} {
		cases = append(cases,
			attempted{name: "once: " + err.Error(), err: err, want: decision{step: stepRetry, delay: 750 * time.Millisecond}, counters: tries{refused: 1}},
			attempted{name: "for the last time: " + err.Error(), before: tries{refused: 4}, err: err, want: recorded(bullpen.Failed, Refused), counters: tries{refused: 5}},
			attempted{name: "late: " + err.Error(), job: past, err: err, want: recorded(bullpen.Timeout, Expired)},
		)
	}
	for _, o := range []bullpen.Outcome{bullpen.Crashed, bullpen.Memory, bullpen.Protocol, bullpen.Timeout, bullpen.Lost, bullpen.Canceled} {
		cases = append(cases, attempted{
			name: "three workers denied it: " + o.String(), deaths: 3, err: failure(o), want: recorded(o, Quarantined), counters: tries{started: 1, crashes: 3},
		})
	}
	cases = append(cases,
		attempted{name: "two workers denied it, then it was closed", deaths: 2, err: bullpen.ErrClosed, want: back, counters: tries{crashes: 2}},
		attempted{name: "closed after the last worker", before: tries{crashes: 2}, deaths: 1, err: bullpen.ErrClosed, want: recorded(bullpen.Crashed, Quarantined), counters: tries{crashes: 3}},
		attempted{name: "two workers denied it, the third ran it", deaths: 2, err: failure(bullpen.Panic), want: decision{step: stepRetry, delay: 1500 * time.Millisecond}, counters: tries{started: 1, failures: 1, crashes: 2}},
	)
	for _, o := range []bullpen.Outcome{bullpen.Crashed, bullpen.Memory} {
		for _, on := range [][]bullpen.Outcome{nil, {}} {
			cases = append(cases,
				attempted{name: "the worker died: " + o.String(), on: on, err: failure(o), want: atOnce, counters: tries{started: 1, crashes: 1}},
				attempted{name: "late, the worker died: " + o.String(), on: on, job: past, err: failure(o), want: recorded(o, Expired), counters: tries{started: 1, crashes: 1}},
				attempted{name: "the last worker died: " + o.String(), on: on, before: tries{started: 6, failures: 4, crashes: 2}, err: failure(o), want: recorded(o, Quarantined), counters: tries{started: 7, failures: 4, crashes: 3}},
				attempted{name: "late, the last worker died: " + o.String(), on: on, job: past, before: tries{started: 2, crashes: 2}, err: failure(o), want: recorded(o, Quarantined), counters: tries{started: 3, crashes: 3}},
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
		if c.before.failures == 0 && c.counters.failures > 0 {
			policy.Backoff = 2 * time.Second
		}
		got := c.before
		end := attemptEnd{err: c.err, at: now, node: "n", interrupted: c.stopped, result: bullpen.Result{Payload: make([]byte, c.result), Stats: bullpen.Stats{Deaths: c.deaths}}}
		if d := decide(&c.job, policy, 100, &got, end, random); d != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, d, c.want)
		}
		added := got.started - c.before.started
		if len(got.history) != added {
			t.Errorf("%s: %d attempts are noted and %d counted", c.name, len(got.history), added)
		}
		got.history = nil
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
				policy := Retry{On: on, Attempts: 4, Crashes: 2}.over(usual)
				job, known := &Job{Idempotent: idempotent}, tries{}
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

func TestDelay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ backoff, most time.Duration }{
		{time.Second, 5 * time.Minute}, {time.Second, time.Second}, {time.Millisecond, 7 * time.Second},
		{time.Hour, 1 << 62}, {1, 1<<63 - 1}, {time.Second, 1<<63 - 1}, {2, 3},
	} {
		r := Retry{Backoff: c.backoff, MaxBackoff: c.most}
		want := c.backoff
		for n := 1; n <= 100; n++ {
			if n > 1 {
				if want > c.most/2 {
					want = c.most
				} else {
					want *= 2
				}
			}
			for _, random := range []float64{0, 0.25, 0.5, 0.999999} {
				d := r.delay(n, random)
				if d > want || d > c.most || d < want/2-want/1_000_000 {
					t.Fatalf("%+v after %d attempts waits %v, want %v or up to a half less", c, n, d, want)
				}
			}
			if d := r.delay(n, 0); d != want {
				t.Fatalf("%+v after %d attempts waits %v at most, want %v", c, n, d, want)
			}
		}
	}
	if d := (Retry{Backoff: time.Second, MaxBackoff: time.Minute}).delay(1<<40, 0); d != time.Minute {
		t.Errorf("after very many attempts it waits %v, want a minute", d)
	}
}

// TestThePolicyOfAJob lays the policy of a job over that of the queue.
func TestThePolicyOfAJob(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		job  Retry
		want Retry
	}{
		"nothing":           {Retry{}, usual},
		"attempts":          {Retry{Attempts: 1}, Retry{1, time.Second, 5 * time.Minute, 3, 10, usual.On}},
		"no outcome":        {Retry{On: []bullpen.Outcome{}}, Retry{5, time.Second, 5 * time.Minute, 3, 10, []bullpen.Outcome{}}},
		"all":               {Retry{2, 3, 4, 5, 6, []bullpen.Outcome{bullpen.Output}}, Retry{2, 3, 4, 5, 6, []bullpen.Outcome{bullpen.Output}}},
		"a long back-off":   {Retry{Backoff: time.Hour}, Retry{5, time.Hour, time.Hour, 3, 10, usual.On}},
		"a short most only": {Retry{MaxBackoff: 100 * time.Millisecond}, Retry{5, 100 * time.Millisecond, 100 * time.Millisecond, 3, 10, usual.On}},
	} {
		if got := c.job.over(usual); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestFirstLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", longestError)
	for want, te := range map[string]*bullpen.TaskError{
		"":                   {},
		"one":                {Message: "one\ntwo"},
		"cause":              {Err: errors.New("cause\nmore")},
		"ValueError: one":    {Type: "ValueError", Message: "one"},
		long[:longestError]:  {Message: long},
		"message over cause": {Message: "message over cause", Err: errors.New("cause")},
	} {
		if got := firstLine(te); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
