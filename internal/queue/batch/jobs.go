package batch

import (
	"context"
	"errors"
	"slices"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// BatchJobs implements queue.Queue.BatchJobs.
func (q *Batches) BatchJobs(ctx context.Context, id string, from, limit int) (list []job.Info, next int, err error) {
	r, err := q.readBatch(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	if limit = min(limit, jobs.MostPage); limit <= 0 {
		limit = jobs.DefaultPage
	}
	end := r.End()
	from = max(from, 0)
	last := min(from+limit, end)
	if from >= last {
		return nil, 0, nil
	}
	t := &roster{batches: q, id: id, record: r}
	members := make([]int, 0, last-from)
	for i := from; i < last; i++ {
		members = append(members, i)
	}
	all := make([]*job.Info, len(members))
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
			list = append(list, *info)
		}
	}
	return slices.Clip(list), next, nil
}

// memberInfo returns the current job of a member; nil for a member that was not added to
// an open batch.
func (q *Batches) memberInfo(ctx context.Context, r *record.Batch, index int) (*job.Info, error) {
	var last *job.Info
	for id := r.Member(index); ; {
		info, err := q.Get(ctx, id)
		switch {
		case err == nil && info.Next == "":
			info.Payload, info.Result = nil, nil
			return info, nil
		case err == nil:
			last, id = info, info.Next
		case last != nil && errors.Is(err, job.ErrNotFound):
			return last, nil // the next job is about to be enqueued
		case errors.Is(err, job.ErrNotFound) && r.State == job.BatchOpen:
			return nil, nil
		case errors.Is(err, job.ErrNotFound):
			return &job.Info{ID: id, State: job.Done, Batch: r.ID, Index: index, Outcome: bullpen.Lost, Err: err}, nil
		case errors.Is(err, job.ErrDamaged):
			return &job.Info{ID: id, State: job.Queued, Batch: r.ID, Index: index, Reason: job.Corrupt, Err: err}, nil
		default:
			return nil, err
		}
	}
}
