package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// keeps reports whether the record of a job is kept with its outcome. The record and the
// result together must fit into a message of the store.
func (c *Config) keeps(record, result int) bool {
	return record <= c.Keep.Payloads && record+result <= max(c.MaxPayload, c.MaxResult)
}

// KeepJob stores the record of the job in e, if it is kept.
func (c *Config) KeepJob(e *record.End, record []byte) {
	if c.keeps(len(record), len(e.Result)) {
		e.Job = record
	}
}

// Payload implements queue.Queue.Payload.
func (q *Jobs) Payload(ctx context.Context, id string) ([]byte, error) {
	info, err := q.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if !info.State.Ended() {
		return info.Payload, nil
	}
	s, err := q.endedJob(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.Job.Payload, nil
}

// endedJob returns a job that has ended, as it was enqueued.
func (q *Jobs) endedJob(ctx context.Context, id string) (*record.Job, error) {
	e, err := q.Outcome(ctx, id)
	if err != nil {
		return nil, StoreError(err)
	}
	if e.State() == job.Dead {
		_, dead, s, err := q.dead(ctx, id)
		switch {
		case errors.Is(err, job.ErrNotFound):
			return nil, fmt.Errorf("%w: job %s was removed or retried, and its payload with it", job.ErrPayloadGone, id)
		case err == nil && s == nil:
			return nil, fmt.Errorf("%w: job %s is damaged (%s)", job.ErrPayloadGone, id, dead.Message)
		}
		return s, err
	}
	if s := e.Kept(); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w: job %s is %v, and its payload of %[5]d bytes was over the limit of %[4]d bytes for keeping it (Keep.Payloads)", job.ErrPayloadGone, id, e.State(), max(q.Config.Keep.Payloads, 0), e.Size)
}

// mostAgain bounds how often a job is tried again under its own id while the last of its
// new jobs is remembered.
const mostAgain = 100

// Retry implements queue.Queue.Retry.
func (q *Jobs) Retry(ctx context.Context, id string) (job.Ref, error) {
	info, err := q.Get(ctx, id)
	if err != nil {
		return job.Ref{}, err
	}
	if !info.State.Ended() {
		return job.Ref{}, fmt.Errorf("%w: %s is %v", job.ErrNotEnded, id, info.State)
	}
	s, err := q.endedJob(ctx, id)
	if err != nil {
		return job.Ref{}, err
	}
	if info.State == job.Dead {
		return q.RetryDead(ctx, id)
	}
	if info.State == job.Done {
		s.Job.Then, s.Chain = nil, record.Position{} // the jobs that followed have run
	}
	// Each retry has a key that follows from the one before, so that concurrent calls
	// enqueue one job.
	last := id
	for range mostAgain {
		ref, err := q.putAgain(ctx, s, id, last)
		if err != nil {
			return ref, err
		}
		if !ref.Existing || !ref.State.Ended() {
			q.Journal.Emit(job.Event{Kind: job.TriedAgain, Queue: s.Job.Queue, Task: s.Job.Name, Job: id, Text: "as " + ref.ID})
			return ref, nil
		}
		last = ref.ID
	}
	return job.Ref{}, fmt.Errorf("job %s was retried %d times: retry the last of its new jobs, %s", id, mostAgain, last)
}

// putAgain enqueues s as a new job that follows from the end of the job id, unless the
// store already holds one that follows from the job last.
func (q *Jobs) putAgain(ctx context.Context, s *record.Job, id, last string) (job.Ref, error) {
	again := *s
	again.ID, again.Parent, again.Again = ulid.Make().String(), id, false
	again.Batch, again.Index = "", 0
	again.Job.Key = "bullpen.retry/" + last
	again.Job.At = time.Time{}
	if again.Enqueued = time.Now(); again.Job.Deadline.Before(again.Enqueued) {
		again.Job.Deadline = time.Time{}
	}
	if err := q.Admit(&again.Job, ""); err != nil {
		return job.Ref{}, err
	}
	return q.enqueueKeyed(ctx, &again)
}
