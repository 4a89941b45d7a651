package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// The errors of calls that need the payload of a job.
var (
	// ErrPayloadGone says that the job has ended and that its payload is no longer
	// kept, or never was (see Keep.Payloads).
	ErrPayloadGone = errors.New("the payload is no longer kept")
	// ErrNotEnded says that the job has not ended.
	ErrNotEnded = errors.New("the job has not ended")
)

// keeps reports whether the record of a job is kept with its outcome. Together with
// the result it must fit into a message of the store.
func (c *Config) keeps(record, result int) bool {
	return record <= c.Keep.Payloads && record+result <= max(c.MaxPayload, c.MaxResult)
}

// keep makes e hold the record of its job, where that is kept.
func (e *ending) keep(record []byte, c *Config) {
	if c.keeps(len(record), len(e.result)) {
		e.job = record
	}
}

// kept gives the job that e keeps, nil for none. One that died is among the dead.
func (e *ending) kept() *stored {
	if len(e.job) == 0 {
		return nil
	}
	s, err := decodeJob(e.id, e.job)
	if err != nil {
		return nil // the outcome is good without it
	}
	s.job.Queue, s.job.Priority = e.queue, e.priority
	return s
}

// Payload returns the input of a job: of one that has ended as long as that is kept,
// of a dead one as long as it is among the dead; then the error is ErrPayloadGone. It
// costs as much as Get.
func (q *Queue) Payload(ctx context.Context, id string) ([]byte, error) {
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
	return s.job.Payload, nil
}

// endedJob returns the job that has ended, as it was handed in.
func (q *Queue) endedJob(ctx context.Context, id string) (*stored, error) {
	e, err := q.outcome(ctx, id)
	if err != nil {
		return nil, storeError(err)
	}
	if e.state() == Dead {
		_, dead, s, err := q.dead(ctx, id)
		switch {
		case errors.Is(err, ErrNotFound):
			return nil, fmt.Errorf("%w: job %s was removed from the dead or tried again, and its payload went with that", ErrPayloadGone, id)
		case err == nil && s == nil:
			return nil, fmt.Errorf("%w: job %s is damaged (%s)", ErrPayloadGone, id, dead.message)
		}
		return s, err
	}
	if s := e.kept(); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w: job %s is %v, and of such jobs those of %d bytes at most are kept (Keep.Payloads); its payload had %d", ErrPayloadGone, id, e.state(), max(q.config.Keep.Payloads, 0), e.size)
}

// mostAgain bounds how often a job is tried again under its own id while the last
// of its new jobs is remembered.
const mostAgain = 100

// Retry enqueues a job that has ended again, as a new job with attempts of its own
// whose Parent is the old one. A dead one leaves the dead (see RetryDead). One that is
// Done or Canceled stays as it is; until the new job has ended, calling it again gives
// back that one. The new job of one that is Done is in no chain, and no new one is in a
// batch. The error is ErrNotEnded for a job that has not ended, and ErrPayloadGone when
// its payload is not kept.
func (q *Queue) Retry(ctx context.Context, id string) (Ref, error) {
	info, err := q.Get(ctx, id)
	if err != nil {
		return Ref{}, err
	}
	if !info.State.Ended() {
		return Ref{}, fmt.Errorf("%w: %s is %v", ErrNotEnded, id, info.State)
	}
	s, err := q.endedJob(ctx, id)
	if err != nil {
		return Ref{}, err
	}
	if info.State == Dead {
		return q.RetryDead(ctx, id)
	}
	if info.State == Done {
		s.job.Then, s.chain = nil, place{} // what followed has run
	}
	// Each try again has the key of the one before, so that calls at the same time
	// enqueue one job.
	last := id
	for range mostAgain {
		ref, err := q.putAgain(ctx, s, id, last)
		if err != nil {
			return ref, err
		}
		if !ref.Existing || !ref.State.Ended() {
			q.journal.emit(Event{Kind: TriedAgain, Queue: s.job.Queue, Task: s.job.Name, Job: id, Text: "as " + ref.ID})
			return ref, nil
		}
		last = ref.ID
	}
	return Ref{}, fmt.Errorf("job %s was tried again %d times: try the last of its new jobs again, %s", id, mostAgain, last)
}

// putAgain enqueues s as a new job that follows from the end of the job id, unless one
// that follows from the job last is there.
func (q *Queue) putAgain(ctx context.Context, s *stored, id, last string) (Ref, error) {
	again := *s
	again.id, again.parent, again.again = ulid.Make().String(), id, false
	again.batch, again.index = "", 0
	again.job.Key = "bullpen.retry/" + last
	again.job.At = time.Time{}
	if again.enqueued = time.Now(); again.job.Deadline.Before(again.enqueued) {
		again.job.Deadline = time.Time{}
	}
	if err := q.admit(&again.job, ""); err != nil {
		return Ref{}, err
	}
	return q.enqueueKeyed(ctx, &again)
}
