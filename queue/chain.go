package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// longestChain is how many jobs a chain has at most.
const longestChain = 64

// place is where a job is in a chain.
type place struct {
	first  string // the id of the first job; empty: it is in no chain
	number int    // from 1
	of     int    // how many jobs the chain has
}

// links gives the jobs that follow the first, as they are stored: each with a
// queue, that of the one before where it names none.
func links(then []Job, queue string) []Job {
	then = slices.Clone(then)
	for i := range then {
		if then[i].Queue == "" {
			then[i].Queue = queue
		}
		if queue = then[i].Queue; queue == "" {
			then[i].Queue = "default"
		}
	}
	return then
}

// checkThen reports all faults of the jobs that follow j.
func (j *Job) checkThen(c *Config) error {
	if len(j.Then) == 0 {
		return nil
	}
	var errs []error
	if len(j.Then) >= longestChain {
		errs = append(errs, fmt.Errorf("Then has %d jobs: use %d at most, and let the last one enqueue more", len(j.Then), longestChain-1))
	}
	for i := range j.Then {
		l := &j.Then[i]
		if len(l.Then) > 0 {
			errs = append(errs, fmt.Errorf("Then[%d] has jobs of its own in Then: put all into the Then of the first job", i))
			continue
		}
		if len(l.Payload) > 0 {
			errs = append(errs, fmt.Errorf("Then[%d] has a payload: it gets the result of the job before it; put what else it needs into Meta", i))
		}
		if l.Key != "" {
			errs = append(errs, fmt.Errorf("Then[%d] has a key: give one to the first job, it stands for the whole chain", i))
		}
		if err := l.check(c); err != nil {
			errs = append(errs, fmt.Errorf("Then[%d]: %w", i, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	size := linksSize(j.Then)
	if size > c.MaxPayload/2 || size+len(j.Payload) > c.MaxPayload {
		return fmt.Errorf("Then takes %d bytes and Payload %d: the two take %d at most (Config.MaxPayload), Then half of that; make Meta smaller or the chain shorter",
			size, len(j.Payload), c.MaxPayload)
	}
	return nil
}

// linkRoom is what is stored of a chain beside what write adds of each of its jobs.
const linkRoom = 128

// linksSize bounds what jobs that follow take in the record of the one before.
func linksSize(then []Job) int {
	size := linkRoom
	for i := range then {
		size += linkRoom + len(then[i].Queue) + len(linkFields(&then[i]))
	}
	return size
}

// maxResult is the most bytes of the result of s: what follows must be able to
// take it as its payload.
func (s *stored) maxResult(c *Config) int {
	if len(s.job.Then) == 0 {
		return c.MaxResult
	}
	return min(c.MaxResult, c.MaxPayload-linksSize(s.job.Then[1:]))
}

// tooLarge says why a result of size bytes is not taken.
func (s *stored) tooLarge(size int, c *Config) string {
	if most := s.maxResult(c); most < c.MaxResult {
		return fmt.Sprintf("the result has %d bytes, and the next job of the chain can have %d as its payload (Config.MaxPayload, less what follows it)", size, most)
	}
	return "the result is larger than Config.MaxResult"
}

// next returns the id of the job that follows s when that has ended well, empty
// for the last. It follows from what is recorded, so that all who see the outcome
// find the same.
func (s *stored) next(ended time.Time) string {
	if len(s.job.Then) == 0 {
		return ""
	}
	return derivedID(ended, "chain", s.id)
}

// goOn enqueues the job that follows s, which ended as e says. However often it is
// called, the job runs once. It is done before s leaves the queue, so that a crash
// at any moment leaves one of the two there.
func (q *Queue) goOn(ctx context.Context, e *ending, s *stored) error {
	if e.next == "" || len(s.job.Then) == 0 {
		return nil
	}
	n := &stored{id: e.next, job: s.job.Then[0], enqueued: e.ended, chain: s.chain, batch: s.batch, index: s.index}
	n.job.Payload, n.job.Then = e.result, s.job.Then[1:]
	n.chain.number++
	if n.job.Delay > 0 {
		n.job.At, n.job.Delay = e.ended.Add(n.job.Delay), 0
	}
	if !n.job.At.After(time.Now()) {
		n.job.At = time.Time{}
	}
	_, err := q.enqueueDerived(ctx, n)
	return err
}

// EnqueueChain enqueues the first of some jobs, and the others as its Then: each
// runs when the one before has ended well, with its result as payload. The ref is
// that of the first job. It costs what Enqueue costs; each link costs one message
// and two reads more than a job by itself.
func (q *Queue) EnqueueChain(ctx context.Context, jobs ...Job) (Ref, error) {
	if len(jobs) == 0 {
		return Ref{}, errors.New("queue: EnqueueChain needs a job at least")
	}
	first := jobs[0]
	if len(first.Then) > 0 && len(jobs) > 1 {
		return Ref{}, errors.New("queue: the first job of EnqueueChain has jobs in Then already: pass all of them as arguments, or call Enqueue")
	}
	if len(jobs) > 1 {
		first.Then = jobs[1:]
	}
	return q.Enqueue(ctx, first)
}

// WaitChain waits for the end of the chain that the job id belongs to, from that
// job on, and returns the result of its last job. A job that ends otherwise than
// well ends the chain; the error is an *EndError that names it. Else it is like
// Wait.
func (q *Queue) WaitChain(ctx context.Context, id string) (bullpen.Result, error) {
	e, err := q.waitEnd(ctx, id)
	for err == nil && e.next != "" {
		e, err = q.waitNext(ctx, e)
	}
	if err != nil {
		return bullpen.Result{}, err
	}
	return e.give()
}

// waitNext waits for the end of the job that follows one that has ended. That one
// is still in the queue while the other is not yet there.
func (q *Queue) waitNext(ctx context.Context, before *ending) (*ending, error) {
	for {
		e, err := q.waitEnd(ctx, before.next)
		if !errors.Is(err, ErrNotFound) {
			return e, err
		}
		if left, gone := q.leftQueue(ctx, before.id); gone != nil || left {
			// Between the two looks it may have enqueued the other and left.
			if e, err := q.waitEnd(ctx, before.next); !errors.Is(err, ErrNotFound) {
				return e, err
			}
			return nil, errors.Join(err, gone)
		}
		select {
		case <-time.After(keyPause):
		case <-ctx.Done():
			return nil, gaveUp(ctx, before.next)
		}
	}
}

// leftQueue tells whether no message of a job is there any more.
func (q *Queue) leftQueue(ctx context.Context, id string) (bool, error) {
	for _, subject := range []string{"at." + id, "job.*.*." + id} {
		_, err := q.engine.Get(ctx, engine.Jobs, subject)
		if !errors.Is(err, engine.ErrNotFound) {
			return false, storeError(err)
		}
	}
	return true, nil
}

// CancelChain takes back the job of a chain that is due: id, or what followed it.
// What would follow that is not enqueued. The errors are those of Cancel.
func (q *Queue) CancelChain(ctx context.Context, id string) error {
	for {
		err := q.Cancel(ctx, id)
		if !errors.Is(err, ErrEnded) {
			return err
		}
		e, lost := q.outcome(ctx, id)
		if lost != nil || e.next == "" {
			return err
		}
		if err := q.awaitNext(ctx, e); err != nil {
			return err
		}
		id = e.next
	}
}

// awaitNext waits until the job that follows one is there: it is put before that
// one leaves.
func (q *Queue) awaitNext(ctx context.Context, before *ending) error {
	for {
		left, err := q.leftQueue(ctx, before.id)
		if err != nil || left {
			return err
		}
		if _, err := q.Get(ctx, before.next); !errors.Is(err, ErrNotFound) {
			return err
		}
		select {
		case <-time.After(keyPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
