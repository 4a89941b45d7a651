package queue

import (
	"context"
	"errors"
	"fmt"
)

// prepareMembers checks the members of a batch, from number offset on.
func (q *Queue) prepareMembers(offset int, jobs []Job) ([]*stored, error) {
	if offset < 0 || len(jobs) > MostMembers-offset {
		return nil, fmt.Errorf("members %d to %d: a batch has %d at most, numbered from 0: use several batches", offset, offset+len(jobs)-1, MostMembers)
	}
	all := make([]*stored, len(jobs))
	var errs []error
	for i := range jobs {
		s, err := q.accept(&jobs[i])
		if err == nil && jobs[i].Key != "" {
			err = errors.New("it has a key: leave it out, the batch and the number of the member stand for it")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("job %d: %w", i, err))
		}
		all[i] = s
	}
	return all, errors.Join(errs...)
}

// AddToBatch enqueues members of an open batch, from number offset on; the numbers
// of a batch begin at 0 and have no gaps in the end. Calling it again with the same
// offset after an error or a crash does no harm: members that are there stay as they
// are, whatever jobs says, and have Existing in their ref. Refs and errors are those
// of EnqueueAll. Beside the jobs it costs two messages. The error is ErrEnded when the
// batch was sealed or canceled.
func (q *Queue) AddToBatch(ctx context.Context, id string, offset int, jobs []Job) ([]Ref, error) {
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
	if lost == nil && r.state == BatchCanceled {
		// It was canceled meanwhile, and perhaps before these were there.
		for _, ref := range refs {
			if ref.ID != "" {
				q.Cancel(ctx, ref.ID) //nolint:errcheck // it may have ended, and the batch counts it as canceled
			}
		}
		lost = fmt.Errorf("%w: batch %s was canceled", ErrEnded, id)
	}
	if lost == nil {
		return refs, err
	}
	return refs, errors.Join(err, lost)
}

// beginMembers records that members are about to be put. again has those that may
// have been put before.
func (q *Queue) beginMembers(ctx context.Context, id string, from, to int) (r *batchRecord, again spans, err error) {
	r, err = q.changeBatch(ctx, id, func(r *batchRecord) error {
		if r.state != BatchOpen {
			return fmt.Errorf("%w: batch %s is %v and takes no more members", ErrEnded, id, r.state)
		}
		again = nil
		for _, s := range r.begun {
			again.add(max(s.from, from), min(s.to, to))
		}
		if r.begun.add(from, to); again.count() == to-from {
			return errUnchanged
		}
		if len(r.begun) > mostSpans {
			return fmt.Errorf("batch %s has %d gaps between its members: fill these first (%v)", id, len(r.begun)-1, r.begun.missing(r.begun.end()))
		}
		return nil
	})
	return r, again, err
}

// mostSpans bounds the gaps in what an open batch has, and so its record.
const mostSpans = 1024

// putMembers enqueues members from number offset on, but for those that are there.
// Those that may have been put before, and may have ended since, are looked up
// before they run.
func (q *Queue) putMembers(ctx context.Context, r *batchRecord, offset int, members []*stored, again spans) ([]Ref, error) {
	refs := make([]Ref, len(members))
	put := make([]*stored, 0, len(members))
	for i, s := range members {
		index := offset + i
		s.id, s.batch, s.index, s.derived = r.member(index), r.id, index, again.has(index)
		if s.chain.first != "" {
			s.chain.first = s.id
		}
		if r.there.has(index) {
			refs[i] = Ref{ID: s.id, Existing: true, State: s.first()}
			continue
		}
		put = append(put, s)
	}
	got, err := q.enqueueStored(ctx, put)
	n := 0
	for i, s := range members {
		if n < len(put) && put[n] == s {
			refs[i] = got[n]
			n++
		}
	}
	return refs, err
}

// membersThere records which members are there for certain.
func (q *Queue) membersThere(ctx context.Context, id string, offset int, refs []Ref) (*batchRecord, error) {
	return q.changeBatch(ctx, id, func(r *batchRecord) error {
		before := r.there.count()
		from := 0
		for i := 0; i <= len(refs); i++ {
			if i == len(refs) || refs[i].ID == "" {
				r.there.add(offset+from, offset+i)
				from = i + 1
			}
		}
		if r.there.count() == before || r.state != BatchOpen {
			return errUnchanged
		}
		return nil
	})
}

// SealBatch says that an open batch has total members, and that no more will come.
// The error names those that are not there; add them, and call it again. A batch
// that was sealed with the same total is returned as it is. It costs one message.
func (q *Queue) SealBatch(ctx context.Context, id string, total int) (BatchInfo, error) {
	r, err := q.seal(ctx, id, total, func(*batchRecord) {})
	if err != nil {
		return BatchInfo{}, err
	}
	return q.batchInfo(ctx, r, false)
}

func (q *Queue) seal(ctx context.Context, id string, total int, prepare func(*batchRecord)) (*batchRecord, error) {
	if total < 0 || total > MostMembers {
		return nil, fmt.Errorf("a batch of %d members: use a number from 0 to %d", total, MostMembers)
	}
	return q.changeBatch(ctx, id, func(r *batchRecord) error {
		if r.state == BatchCanceled {
			return fmt.Errorf("%w: batch %s was canceled", ErrEnded, id)
		}
		if r.state != BatchOpen {
			if r.total == total {
				return errUnchanged
			}
			return fmt.Errorf("%w: batch %s was sealed with %d members, not %d", ErrEnded, id, r.total, total)
		}
		prepare(r)
		if gaps := r.there.missing(total); len(gaps) > 0 {
			return fmt.Errorf("%w: of batch %s the members %v are not there: add them and seal it again", ErrIncomplete, id, gaps)
		}
		if r.there.end() > total {
			return fmt.Errorf("%w: batch %s has member %d: seal it with a total of %d at least", ErrIncomplete, id, r.there.end()-1, r.there.end())
		}
		r.state, r.total, r.begun, r.there = BatchRunning, total, nil, nil
		return nil
	})
}

// ErrIncomplete says that a batch cannot be sealed with the given total: members
// are missing, or there are more.
var ErrIncomplete = errors.New("the batch does not have these members")
