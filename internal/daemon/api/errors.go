package api

import (
	"context"
	"errors"
	"strings"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/internal/jsonvalue"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// answers maps errors to problems. The first matching row applies.
var answers = []struct {
	err   error
	cause problem.Cause
	todo  string // advice, if the error has none
}{
	{ErrNoPool, problem.UnknownPool, "GET /v1/pools lists the pools; a pool is added in bullpen.yaml"},
	{ErrNotEphemeral, problem.Forbidden, "set ephemeral: true for it in bullpen.yaml, or submit a durable job to /v1/pools/{pool}/jobs"},
	{ErrNested, problem.Nested, ""},
	{ErrBusyID, problem.BusyID, "use another id, or none"},
	{ErrQueueOnly, problem.Refused, "give it a command in bullpen.yaml, or submit a durable job, which another node runs"},
	{ErrManaged, problem.Managed, "change it in bullpen.yaml and reload; it can be paused, resumed and run here"},
	{job.ErrNoSchedule, problem.NotFound, ""},
	{job.ErrOverlap, problem.Overlap, "wait for its end, or cancel it"},
	{ErrNoWorker, problem.NotFound, "GET /v1/workers lists the workers; it may just have been replaced"},
	{errors.ErrUnsupported, problem.Refused, ""},
	{queue.ErrBackup, problem.Refused, ""},
	{job.ErrNotFound, problem.NotFound, ""},
	{job.ErrEnded, problem.Ended, ""},
	{job.ErrNotEnded, problem.NotEnded, "wait for its end, or cancel it"},
	{job.ErrPayloadGone, problem.PayloadGone, "queue.keep.payloads says which are kept"},
	{job.ErrUnconfirmed, problem.Unconfirmed, "ask GET /v1/jobs/{id} whether it is there, or submit it again with the same Idempotency-Key"},
	{job.ErrIncomplete, problem.Incomplete, ""},
	{job.ErrAfter, problem.BadRequest, ""},
	{job.ErrFull, problem.Full, "try again later, raise queue.keep.jobs, or add workers"},
	{job.ErrClosed, problem.Closed, "try again after a moment"},
	{job.ErrNewer, problem.Internal, "use the version of Bullpen that wrote it, or a later one"},
	{job.ErrDamaged, problem.Internal, "the stored record does not match its checksum: check the disk"},
	{job.ErrStore, problem.Store, "try again after a moment; the log of the daemon says more"},
	{bullpen.ErrClosed, problem.Closed, "try again after a moment"},
	{bullpen.ErrOverloaded, problem.Overloaded, "try again after a moment, or raise workers.max or queue of the pool"},
	{bullpen.ErrUnknownTask, problem.UnknownTask, "use the name of a task that the workers of this pool have"},
	{bullpen.ErrRefused, problem.Refused, "leave out the limit, or raise what the pool allows"},
	{bullpen.ErrStart, problem.StartFailed, "correct the command of the pool in bullpen.yaml"},
}

// problemOf returns the problem for an error of the queue, of an executor or of the
// daemon.
func problemOf(err error) *problem.Problem {
	var end *job.EndError
	if errors.As(err, &end) {
		p := problem.New(problem.EndedBadly, end.Error())
		p.Outcome, p.Reason, p.Job, p.Attempts = jsonvalue.Outcome(end.Outcome).Word(), string(end.Reason), end.ID, end.Attempts
		p.Failure = jsonvalue.FailureOf(end.Task)
		return p
	}
	var task *bullpen.TaskError
	if errors.As(err, &task) {
		p := problem.New(problem.EndedBadly, task.Error())
		p.Outcome, p.Failure = task.Outcome.String(), jsonvalue.FailureOf(task)
		return p
	}
	for _, row := range answers {
		if errors.Is(err, row.err) {
			return problem.New(row.cause, detailOf(err, row.todo))
		}
	}
	// A task canceled before it started has an outcome but no failure.
	outcome := bullpen.Canceled
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		outcome = bullpen.Timeout
	case !errors.Is(err, context.Canceled):
		return problem.New(problem.Internal, detailOf(err, "see the log of the daemon"))
	}
	p := problem.New(problem.EndedBadly, "it had not started: "+err.Error())
	p.Outcome = outcome.String()
	return p
}

func detailOf(err error, todo string) string {
	if todo == "" {
		return err.Error()
	}
	return err.Error() + ": " + todo
}

// onJob sets the id of the job that a problem is about.
func onJob(p *problem.Problem, id string) *problem.Problem {
	if p.Job == "" {
		p.Job = id
	}
	return p
}

// faultsOf splits err into faults, one per line.
func faultsOf(err error) []string {
	var all []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// manyFaults returns a problem with all faults of err.
func manyFaults(cause problem.Cause, before string, err error) *problem.Problem {
	f := faults{texts: faultsOf(err)}
	p := problem.New(cause, before+f.first())
	p.Faults = f.texts
	return p
}
