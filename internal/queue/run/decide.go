package run

import (
	"errors"
	"math/rand/v2"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// step is what happens to a job after an attempt has ended.
type step uint8

const (
	// stepRecord: the job has ended; its outcome is recorded.
	stepRecord step = iota + 1
	// stepRetry: it runs again after a delay; its attempts are recorded.
	stepRetry
	// stepGiveBack: it never started; another executor may have it at once.
	stepGiveBack
)

// decision is the result of decide.
type decision struct {
	step    step
	delay   time.Duration   // of stepRetry
	outcome bullpen.Outcome // of stepRecord
	reason  job.Reason      // of stepRecord, empty if the job ended ok
}

// attemptEnd is how an attempt ended, as decide needs to know it.
type attemptEnd struct {
	result bullpen.Result
	err    error
	at     time.Time
	node   string
	// interrupted means that this program canceled the job to end its own work.
	interrupted bool
}

// decide returns what follows an attempt of a job, and counts the attempt in t. It
// depends only on its arguments; random is from [0, 1).
func decide(j *job.Job, policy job.Retry, maxResult int, t *record.Tries, end attemptEnd, random float64) decision {
	var te *bullpen.TaskError
	switch {
	case end.err == nil && len(end.result.Payload) > maxResult:
		t.Add(end.attempt(bullpen.Output, nil))
		return decision{step: stepRecord, outcome: bullpen.Output, reason: job.Final}
	case end.err == nil:
		if t.Started > 0 {
			t.Add(end.attempt(bullpen.OK, nil))
		}
		return decision{step: stepRecord, outcome: bullpen.OK}
	case errors.As(end.err, &te):
		te = sound(te)
		t.Add(end.attempt(te.Outcome, te))
		return decideStarted(j, policy, t, te, end, random)
	default:
		return decideNeverStarted(j, policy, t, end, random)
	}
}

// sound returns te with a valid outcome that is not ok; any other outcome from an
// executor is replaced.
func sound(te *bullpen.TaskError) *bullpen.TaskError {
	if te.Outcome != bullpen.OK && int(te.Outcome) < bullpen.OutcomeCount {
		return te
	}
	fixed := *te
	fixed.Outcome = bullpen.Lost
	return &fixed
}

func decideStarted(j *job.Job, policy job.Retry, t *record.Tries, te *bullpen.TaskError, end attemptEnd, random float64) decision {
	record := func(reason job.Reason) decision {
		return decision{step: stepRecord, outcome: te.Outcome, reason: reason}
	}
	late := j.Late(end.at)
	died := te.Outcome == bullpen.Crashed || te.Outcome == bullpen.Memory
	if t.Crashes += end.deaths(died); end.deaths(died) > 0 && t.Crashes >= policy.Crashes {
		return record(job.Quarantined)
	}
	switch te.Outcome { //nolint:exhaustive // for the rest the policy alone decides
	case bullpen.Crashed, bullpen.Memory:
		if late {
			return record(job.Expired)
		}
		return decision{step: stepRetry}
	case bullpen.Canceled:
		if late && !end.interrupted {
			return decision{step: stepRecord, outcome: bullpen.Timeout, reason: job.Expired}
		}
		return decision{step: stepRetry} // the executor or this program ended while the job ran
	case bullpen.Timeout:
		if late {
			return record(job.Expired)
		}
	case bullpen.Failed:
		if !te.Retryable {
			return record(job.Final)
		}
	}
	if !policy.Allows(te.Outcome) && !(te.Outcome == bullpen.Lost && j.Idempotent) {
		return record(job.Final)
	}
	if t.Failures++; t.Failures >= policy.Attempts {
		return record(job.Exhausted)
	}
	if late {
		return record(job.Expired)
	}
	return decision{step: stepRetry, delay: within(j, policy.Delay(t.Failures, random), end.at)}
}

func decideNeverStarted(j *job.Job, policy job.Retry, t *record.Tries, end attemptEnd, random float64) decision {
	deaths := end.deaths(false)
	t.Crashes += deaths
	switch {
	case deaths > 0 && t.Crashes >= policy.Crashes:
		return decision{step: stepRecord, outcome: bullpen.Crashed, reason: job.Quarantined}
	case j.Late(end.at):
		return decision{step: stepRecord, outcome: bullpen.Timeout, reason: job.Expired}
	case errors.Is(end.err, bullpen.ErrUnknownTask), errors.Is(end.err, bullpen.ErrRefused):
		// Another node, or a later version of this one, may have a handler for the task.
		if t.Refused++; t.Refused >= policy.Attempts {
			return decision{step: stepRecord, outcome: bullpen.Failed, reason: job.Refused}
		}
		return decision{step: stepRetry, delay: within(j, policy.Delay(t.Refused, random), end.at)}
	default:
		return decision{step: stepGiveBack}
	}
}

// deaths returns how many workers the attempt killed: those that died with the job before
// they reported its start, or the one that ran it.
func (end *attemptEnd) deaths(died bool) int {
	if died {
		return max(end.result.Stats.Deaths, 1)
	}
	return end.result.Stats.Deaths
}

// within shortens a delay that would pass the deadline of j. The job is then delivered at
// its deadline, and ends.
func within(j *job.Job, delay time.Duration, now time.Time) time.Duration {
	if j.Deadline.IsZero() {
		return delay
	}
	return min(delay, max(j.Deadline.Sub(now), 0))
}

// attempt returns the record of the attempt.
func (end *attemptEnd) attempt(o bullpen.Outcome, te *bullpen.TaskError) job.Attempt {
	a := job.Attempt{
		Outcome: o, Ended: end.at, Ran: end.result.Stats.Ran, Node: end.node, Worker: end.result.Stats.Worker,
		PeakMemory: end.result.Stats.PeakMemory, ExitCode: -1,
	}
	if te != nil {
		a.Error, a.Signal, a.ExitCode = record.FirstLine(te), te.Signal, te.ExitCode
		if te.Worker != "" {
			a.Worker = te.Worker
		}
	}
	return a
}

func random() float64 { return rand.Float64() }
