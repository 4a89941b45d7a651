package group

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// SetGroupLimits implements queue.Queue.SetGroupLimits.
func (q *Groups) SetGroupLimits(ctx context.Context, queue, group string, l job.GroupLimits) error {
	if err := errors.Join(job.CheckToken("queue", queue), job.CheckGroup(group), l.Check()); err != nil {
		return fmt.Errorf("the limits of group %q are not valid: %w", group, err)
	}
	subject := record.LimitsSubject(queue, group)
	err := q.Put(ctx, engine.Put{Stream: engine.State, Subject: subject, Data: record.EncodeLimits(subject, group, l), Durable: true})
	if err != nil {
		return err
	}
	return q.limitsChanged(ctx, queue)
}

// ResetGroupLimits implements queue.Queue.ResetGroupLimits.
func (q *Groups) ResetGroupLimits(ctx context.Context, queue, group string) error {
	if err := errors.Join(job.CheckToken("queue", queue), job.CheckGroup(group)); err != nil {
		return fmt.Errorf("the limits of group %q cannot be reset: %w", group, err)
	}
	m, err := q.Engine.Get(ctx, engine.State, record.LimitsSubject(queue, group))
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = q.Engine.Delete(ctx, engine.State, m.Seq)
	}
	if err == nil {
		err = q.Settle(ctx)
	}
	if err != nil {
		return jobs.StoreError(err)
	}
	return q.limitsChanged(ctx, queue)
}

// limitsChanged makes this node and the others read the limits of a queue again.
func (q *Groups) limitsChanged(ctx context.Context, queue string) error {
	q.Tell("limits", queue)
	b := q.backlog(queue)
	if b == nil {
		return nil
	}
	set, err := q.setLimits(ctx, queue)
	if err != nil {
		return err
	}
	b.limit(set)
	return nil
}

// limitsAge is how old a node's copy of the limits may become on a store that other nodes
// change too.
const limitsAge = 5 * time.Second

// setLimits reads the limits set for a queue, by group.
func (q *Groups) setLimits(ctx context.Context, queue string) (map[string]job.GroupLimits, error) {
	set := map[string]job.GroupLimits{}
	for from := uint64(0); ; {
		page, err := q.Engine.Scan(ctx, engine.State, "set.lim."+queue+".>", from, jobs.ScanPage)
		if err != nil {
			return nil, jobs.StoreError(err)
		}
		for _, m := range page {
			from = m.Seq + 1
			group, l, err := record.DecodeLimits(m.Subject, m.Data)
			if err != nil {
				q.Damaged(queue, "", err)
				continue
			}
			set[group] = l
		}
		if len(page) < jobs.ScanPage {
			return set, nil
		}
	}
}
