package queue

import (
	"context"
	"errors"
	"slices"

	bullpen "github.com/bullpen-run/bullpen"
)

// BatchJobs returns members of a batch, limit of them from number from on: of each
// the job that is due, or the last of its chain, without payload and result. next is where to go on, 0 at the
// end. It costs about as many reads as Get for each. How a member has ended may be no
// more kept; then its Err says so.
func (q *Queue) BatchJobs(ctx context.Context, id string, from, limit int) (jobs []Info, next int, err error) {
	r, err := q.readBatch(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	if limit = min(limit, mostPage); limit <= 0 {
		limit = defaultPage
	}
	end := r.end()
	from = max(from, 0)
	last := min(from+limit, end)
	if from >= last {
		return nil, 0, nil
	}
	t := &roster{batches: &q.batches, id: id, record: r}
	members := make([]int, 0, last-from)
	for i := from; i < last; i++ {
		members = append(members, i)
	}
	all := make([]*Info, len(members))
	err = t.each(ctx, members, func(ctx context.Context, i int) error {
		info, err := q.memberInfo(ctx, r, i)
		all[i-from] = info
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if last < end {
		next = last
	}
	for _, info := range all {
		if info != nil {
			jobs = append(jobs, *info)
		}
	}
	return slices.Clip(jobs), next, nil
}

// memberInfo returns the job of a member that is due; nil is one of an open batch
// that was not added.
func (q *Queue) memberInfo(ctx context.Context, r *batchRecord, index int) (*Info, error) {
	var last *Info
	for id := r.member(index); ; {
		info, err := q.Get(ctx, id)
		switch {
		case err == nil && info.Next == "":
			info.Payload, info.Result = nil, nil
			return info, nil
		case err == nil:
			last, id = info, info.Next
		case last != nil && errors.Is(err, ErrNotFound):
			return last, nil // the next one is about to be enqueued
		case errors.Is(err, ErrNotFound) && r.state == BatchOpen:
			return nil, nil
		case errors.Is(err, ErrNotFound):
			return &Info{ID: id, State: Done, Batch: r.id, Index: index, Outcome: bullpen.Lost, Err: err}, nil
		case errors.Is(err, ErrDamaged):
			return &Info{ID: id, State: Queued, Batch: r.id, Index: index, Reason: Corrupt, Err: err}, nil
		default:
			return nil, err
		}
	}
}
