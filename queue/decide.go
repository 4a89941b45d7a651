package queue

import (
	"errors"
	"math/rand/v2"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// step is what happens next to a job whose attempt has ended.
type step uint8

const (
	// stepRecord: the job has ended; its outcome is recorded.
	stepRecord step = iota + 1
	// stepRetry: it runs again, after a delay; what is known of its attempts is stored.
	stepRetry
	// stepGiveBack: it never started; somebody else may have it at once.
	stepGiveBack
)

// decision is what decide says.
type decision struct {
	step    step
	delay   time.Duration   // of stepRetry
	outcome bullpen.Outcome // of stepRecord
	reason  Reason          // of stepRecord, empty for a good end
}

// attemptEnd is how an attempt ended, as decide needs to know it.
type attemptEnd struct {
	result bullpen.Result
	err    error
	at     time.Time
	node   string
	// interrupted says that this program canceled it to end its own work.
	interrupted bool
}

// decide says what comes after an attempt of a job, and counts it in t. It
// depends on nothing but its arguments; random is from [0, 1).
func decide(j *Job, policy Retry, maxResult int, t *tries, end attemptEnd, random float64) decision {
	var te *bullpen.TaskError
	switch {
	case end.err == nil && len(end.result.Payload) > maxResult:
		t.add(end.attempt(bullpen.Output, nil))
		return decision{step: stepRecord, outcome: bullpen.Output, reason: Final}
	case end.err == nil:
		if t.started > 0 {
			t.add(end.attempt(bullpen.OK, nil))
		}
		return decision{step: stepRecord, outcome: bullpen.OK}
	case errors.As(end.err, &te):
		te = sound(te)
		t.add(end.attempt(te.Outcome, te))
		return decideStarted(j, policy, t, te, end, random)
	default:
		return decideNeverStarted(j, policy, t, end, random)
	}
}

// sound gives te with an outcome that there is and that is no good one: what an
// executor tells otherwise is not known.
func sound(te *bullpen.TaskError) *bullpen.TaskError {
	if te.Outcome != bullpen.OK && int(te.Outcome) < bullpen.OutcomeCount {
		return te
	}
	fixed := *te
	fixed.Outcome = bullpen.Lost
	return &fixed
}

func decideStarted(j *Job, policy Retry, t *tries, te *bullpen.TaskError, end attemptEnd, random float64) decision {
	record := func(reason Reason) decision {
		return decision{step: stepRecord, outcome: te.Outcome, reason: reason}
	}
	late := j.late(end.at)
	died := te.Outcome == bullpen.Crashed || te.Outcome == bullpen.Memory
	if t.crashes += end.deaths(died); end.deaths(died) > 0 && t.crashes >= policy.Crashes {
		return record(Quarantined)
	}
	switch te.Outcome { //nolint:exhaustive // for the rest the policy alone decides
	case bullpen.Crashed, bullpen.Memory:
		if late {
			return record(Expired)
		}
		return decision{step: stepRetry}
	case bullpen.Canceled:
		if late && !end.interrupted {
			return decision{step: stepRecord, outcome: bullpen.Timeout, reason: Expired}
		}
		return decision{step: stepRetry} // the executor or this program ended under it
	case bullpen.Timeout:
		if late {
			return record(Expired)
		}
	case bullpen.Failed:
		if !te.Retryable {
			return record(Final)
		}
	}
	if !policy.allows(te.Outcome) && !(te.Outcome == bullpen.Lost && j.Idempotent) {
		return record(Final)
	}
	if t.failures++; t.failures >= policy.Attempts {
		return record(Exhausted)
	}
	if late {
		return record(Expired)
	}
	return decision{step: stepRetry, delay: j.within(policy.delay(t.failures, random), end.at)}
}

func decideNeverStarted(j *Job, policy Retry, t *tries, end attemptEnd, random float64) decision {
	deaths := end.deaths(false)
	t.crashes += deaths
	switch {
	case deaths > 0 && t.crashes >= policy.Crashes:
		return decision{step: stepRecord, outcome: bullpen.Crashed, reason: Quarantined}
	case j.late(end.at):
		return decision{step: stepRecord, outcome: bullpen.Timeout, reason: Expired}
	case errors.Is(end.err, bullpen.ErrUnknownTask), errors.Is(end.err, bullpen.ErrRefused):
		// Another node, or the next version of this one, may know the task.
		if t.refused++; t.refused >= policy.Attempts {
			return decision{step: stepRecord, outcome: bullpen.Failed, reason: Refused}
		}
		return decision{step: stepRetry, delay: j.within(policy.delay(t.refused, random), end.at)}
	default:
		return decision{step: stepGiveBack}
	}
}

// deaths is how many workers the attempt has cost: those that ended with the job in
// hand and had not said that they started it, or the one that ran it and died.
func (end *attemptEnd) deaths(died bool) int {
	if died {
		return max(end.result.Stats.Deaths, 1)
	}
	return end.result.Stats.Deaths
}

// within shortens a delay that would end after the deadline: then the job is
// looked at again, and ends.
func (j *Job) within(delay time.Duration, now time.Time) time.Duration {
	if j.Deadline.IsZero() {
		return delay
	}
	return min(delay, max(j.Deadline.Sub(now), 0))
}

// late tells whether the job's deadline has passed.
func (j *Job) late(now time.Time) bool { return !j.Deadline.IsZero() && !now.Before(j.Deadline) }

// delay returns the time before the attempt after n failed ones: Backoff doubled
// with each, a random half of it taken off, so that jobs which failed together do
// not come back together.
func (r Retry) delay(n int, random float64) time.Duration {
	d := r.Backoff
	for range n - 1 {
		if d >= r.MaxBackoff/2 {
			d = r.MaxBackoff
			break
		}
		d *= 2
	}
	d = min(d, r.MaxBackoff)
	return d - time.Duration(float64(d)/2*random)
}

// attempt gives the record of the attempt.
func (end *attemptEnd) attempt(o bullpen.Outcome, te *bullpen.TaskError) Attempt {
	a := Attempt{
		Outcome: o, Ended: end.at, Ran: end.result.Stats.Ran, Node: end.node, Worker: end.result.Stats.Worker,
		PeakMemory: end.result.Stats.PeakMemory, ExitCode: -1,
	}
	if te != nil {
		a.Error, a.Signal, a.ExitCode = firstLine(te), te.Signal, te.ExitCode
		if te.Worker != "" {
			a.Worker = te.Worker
		}
	}
	return a
}

// longestError bounds the text of an error in the history of attempts.
const longestError = 500

func firstLine(te *bullpen.TaskError) string {
	s := te.Message
	if s == "" && te.Err != nil {
		s = te.Err.Error()
	}
	if te.Type != "" {
		s = te.Type + ": " + s
	}
	for i, c := range s {
		if c == '\n' || i >= longestError {
			return s[:i]
		}
	}
	return s
}

func random() float64 { return rand.Float64() }
