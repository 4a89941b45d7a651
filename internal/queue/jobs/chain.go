package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// checkJob reports every fault of j at once.
func (c *Config) checkJob(j *job.Job) error {
	return errors.Join(j.Check(), c.CheckSizes(j))
}

// CheckSizes reports the parts of j that are larger than c allows.
func (c *Config) CheckSizes(j *job.Job) error {
	if len(j.Payload) > c.MaxPayload {
		return fmt.Errorf("job %q: Payload has %d bytes: use at most %d (Config.MaxPayload); put the data elsewhere and its name into the payload", j.Name, len(j.Payload), c.MaxPayload)
	}
	if len(j.Then) == 0 {
		return nil
	}
	if size := record.LinksSize(j.Then); size > c.MaxPayload/2 || size+len(j.Payload) > c.MaxPayload {
		return fmt.Errorf("job %q: Then has %d bytes and Payload %d: use at most %d for both (Config.MaxPayload), and at most half of that for Then; make Meta smaller or the chain shorter",
			j.Name, size, len(j.Payload), c.MaxPayload)
	}
	return nil
}

// MaxResultOf returns the largest result of s in bytes: the next job of the chain must be
// able to take it as its payload.
func (c *Config) MaxResultOf(s *record.Job) int {
	if len(s.Job.Then) == 0 {
		return c.MaxResult
	}
	return min(c.MaxResult, c.MaxPayload-record.LinksSize(s.Job.Then[1:]))
}

// TooLarge describes why a result of size bytes is refused.
func (c *Config) TooLarge(s *record.Job, size int) string {
	if most := c.MaxResultOf(s); most < c.MaxResult {
		return fmt.Sprintf("the result has %d bytes, but the payload of the next job of the chain can have at most %d (Config.MaxPayload, less the rest of the chain)", size, most)
	}
	return "the result is larger than Config.MaxResult"
}

// EnqueueChain implements queue.Queue.EnqueueChain.
func (q *Jobs) EnqueueChain(ctx context.Context, jobs ...job.Job) (job.Ref, error) {
	if len(jobs) == 0 {
		return job.Ref{}, errors.New("queue: EnqueueChain needs at least one job")
	}
	first := jobs[0]
	if len(first.Then) > 0 && len(jobs) > 1 {
		return job.Ref{}, errors.New("queue: the first job of EnqueueChain already has jobs in Then: pass all jobs as arguments, or call Enqueue")
	}
	if len(jobs) > 1 {
		first.Then = jobs[1:]
	}
	return q.Enqueue(ctx, first)
}

// WaitChain implements queue.Queue.WaitChain.
func (q *Jobs) WaitChain(ctx context.Context, id string) (bullpen.Result, error) {
	e, err := q.waitEnd(ctx, id)
	for err == nil && e.Next != "" {
		e, err = q.waitNext(ctx, e)
	}
	if err != nil {
		return bullpen.Result{}, err
	}
	return e.Give()
}

// waitNext waits for the end of the job that follows before in its chain. The ended job
// stays in the queue until the next one is stored.
func (q *Jobs) waitNext(ctx context.Context, before *record.End) (*record.End, error) {
	for {
		e, err := q.waitEnd(ctx, before.Next)
		if !errors.Is(err, job.ErrNotFound) {
			return e, err
		}
		if left, gone := q.LeftQueue(ctx, before.ID); gone != nil || left {
			// Between the two reads, the ended job may have enqueued the next one and
			// left.
			if e, err := q.waitEnd(ctx, before.Next); !errors.Is(err, job.ErrNotFound) {
				return e, err
			}
			return nil, errors.Join(err, gone)
		}
		select {
		case <-time.After(keyPause):
		case <-ctx.Done():
			return nil, gaveUp(ctx, before.Next)
		}
	}
}

// LeftQueue reports whether the stream Jobs no longer holds a message of the job.
func (q *Jobs) LeftQueue(ctx context.Context, id string) (bool, error) {
	for _, subject := range []string{"at." + id, "job.*.*." + id} {
		_, err := q.Engine.Get(ctx, engine.Jobs, subject)
		if !errors.Is(err, engine.ErrNotFound) {
			return false, StoreError(err)
		}
	}
	return true, nil
}

// AwaitNext waits until the job that follows before is stored, or before has left the
// queue, which it does only after that.
func (q *Jobs) AwaitNext(ctx context.Context, before *record.End) error {
	for {
		left, err := q.LeftQueue(ctx, before.ID)
		if err != nil || left {
			return err
		}
		if _, err := q.Get(ctx, before.Next); !errors.Is(err, job.ErrNotFound) {
			return err
		}
		select {
		case <-time.After(keyPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
