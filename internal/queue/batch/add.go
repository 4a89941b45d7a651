package batch

import (
	"context"
	"errors"
	"fmt"

	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// prepareMembers checks the members of a batch; the first has number offset.
func (q *Batches) prepareMembers(offset int, jobs []job.Job) ([]*record.Job, error) {
	if offset < 0 || len(jobs) > job.MostMembers-offset {
		return nil, fmt.Errorf("members %d to %d: a batch has at most %d, numbered from 0: use several batches", offset, offset+len(jobs)-1, job.MostMembers)
	}
	all := make([]*record.Job, len(jobs))
	var errs []error
	for i := range jobs {
		s, err := q.Accept(&jobs[i])
		if err == nil && jobs[i].Key != "" {
			err = errors.New("it has a key: leave it out, as the batch and the number of the member replace it")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("job %d: %w", i, err))
		}
		all[i] = s
	}
	return all, errors.Join(errs...)
}

// AddToBatch implements queue.Queue.AddToBatch.
func (q *Batches) AddToBatch(ctx context.Context, id string, offset int, jobs []job.Job) ([]job.Ref, error) {
	members, err := q.prepareMembers(offset, jobs)
	if err != nil {
		return nil, err
	}
	r, again, err := q.beginMembers(ctx, id, offset, offset+len(jobs))
	if err != nil {
		return nil, err
	}
	refs, err := q.putMembers(ctx, r, offset, members, again)
	r, lost := q.membersThere(ctx, id, offset, refs)
	if lost == nil && r.State == job.BatchCanceled {
		// The batch was canceled meanwhile, perhaps before these members were stored.
		for _, ref := range refs {
			if ref.ID != "" {
				q.Cancel(ctx, ref.ID) //nolint:errcheck // it may have ended, and the batch counts it as canceled
			}
		}
		lost = fmt.Errorf("%w: batch %s was canceled", job.ErrEnded, id)
	}
	if lost == nil {
		return refs, err
	}
	return refs, errors.Join(err, lost)
}

// beginMembers records that members are about to be put. again is those that may have
// been put before.
func (q *Batches) beginMembers(ctx context.Context, id string, from, to int) (r *record.Batch, again record.Spans, err error) {
	r, err = q.changeBatch(ctx, id, func(r *record.Batch) error {
		if r.State != job.BatchOpen {
			return fmt.Errorf("%w: batch %s is %v and accepts no more members", job.ErrEnded, id, r.State)
		}
		again = nil
		for _, s := range r.Begun {
			again.Add(max(s.From, from), min(s.To, to))
		}
		if r.Begun.Add(from, to); again.Count() == to-from {
			return errUnchanged
		}
		if len(r.Begun) > mostSpans {
			return fmt.Errorf("batch %s has %d gaps between its members: fill them first (%v)", id, len(r.Begun)-1, r.Begun.Missing(r.Begun.End()))
		}
		return nil
	})
	return r, again, err
}

// mostSpans bounds the gaps between the members of an open batch, and so the size of its
// record.
const mostSpans = 1024

// putMembers enqueues the members that are not stored; the first has number offset. Those
// that may have been put before, and may have ended since, are looked up before they run.
func (q *Batches) putMembers(ctx context.Context, r *record.Batch, offset int, members []*record.Job, again record.Spans) ([]job.Ref, error) {
	refs := make([]job.Ref, len(members))
	put := make([]*record.Job, 0, len(members))
	for i, s := range members {
		index := offset + i
		s.ID, s.Batch, s.Index, s.Derived = r.Member(index), r.ID, index, again.Has(index)
		if s.Chain.First != "" {
			s.Chain.First = s.ID
		}
		if r.There.Has(index) {
			refs[i] = job.Ref{ID: s.ID, Queue: s.Job.Queue, Existing: true, State: s.State()}
			continue
		}
		put = append(put, s)
	}
	got, err := q.EnqueueMany(ctx, put)
	n := 0
	for i, s := range members {
		if n < len(put) && put[n] == s {
			refs[i] = got[n]
			n++
		}
	}
	return refs, err
}

// membersThere records which members are certainly stored.
func (q *Batches) membersThere(ctx context.Context, id string, offset int, refs []job.Ref) (*record.Batch, error) {
	return q.changeBatch(ctx, id, func(r *record.Batch) error {
		before := r.There.Count()
		from := 0
		for i := 0; i <= len(refs); i++ {
			if i == len(refs) || refs[i].ID == "" {
				r.There.Add(offset+from, offset+i)
				from = i + 1
			}
		}
		if r.There.Count() == before || r.State != job.BatchOpen {
			return errUnchanged
		}
		return nil
	})
}

// SealBatch implements queue.Queue.SealBatch.
func (q *Batches) SealBatch(ctx context.Context, id string, total int) (job.BatchInfo, error) {
	r, err := q.seal(ctx, id, total, func(*record.Batch) {})
	if err != nil {
		return job.BatchInfo{}, err
	}
	return q.batchInfo(ctx, r, false)
}

func (q *Batches) seal(ctx context.Context, id string, total int, prepare func(*record.Batch)) (*record.Batch, error) {
	if total < 0 || total > job.MostMembers {
		return nil, fmt.Errorf("a batch of %d members: use a number from 0 to %d", total, job.MostMembers)
	}
	return q.changeBatch(ctx, id, func(r *record.Batch) error {
		if r.State == job.BatchCanceled {
			return fmt.Errorf("%w: batch %s was canceled", job.ErrEnded, id)
		}
		if r.State != job.BatchOpen {
			if r.Total == total {
				return errUnchanged
			}
			return fmt.Errorf("%w: batch %s was sealed with %d members, not %d", job.ErrEnded, id, r.Total, total)
		}
		prepare(r)
		if gaps := r.There.Missing(total); len(gaps) > 0 {
			return fmt.Errorf("%w: batch %s is incomplete, the members %v are not there: add them and seal it again", job.ErrIncomplete, id, gaps)
		}
		if r.There.End() > total {
			return fmt.Errorf("%w: batch %s has member %d: seal it with a total of at least %d", job.ErrIncomplete, id, r.There.End()-1, r.There.End())
		}
		r.State, r.Total, r.Begun, r.There = job.BatchRunning, total, nil, nil
		return nil
	})
}
