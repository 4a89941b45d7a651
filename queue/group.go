package queue

import (
	"context"

	"github.com/bullpen-run/bullpen/job"
)

// SetGroupLimits sets the limits of a group of a queue, on all nodes, in place of those
// of WorkConfig.Group. Jobs that run go on. An empty group sets the limits of all
// groups that have none of their own. The limits stay until they are set again or
// reset. It costs one message to the store and one sync.
func (q *Queue) SetGroupLimits(ctx context.Context, queue, group string, l job.GroupLimits) error {
	return q.node.SetGroupLimits(ctx, queue, group, l)
}

// ResetGroupLimits removes what SetGroupLimits has set for a group, or with an empty
// group for all that have none of their own. It is no error if nothing was set.
func (q *Queue) ResetGroupLimits(ctx context.Context, queue, group string) error {
	return q.node.ResetGroupLimits(ctx, queue, group)
}

// Groups returns the groups of a queue that have jobs waiting or running, or limits of
// their own, by name. If this program works on the queue and has the store for itself,
// it reads nothing from the store. Otherwise it reads the waiting jobs, at most 100
// 000.
func (q *Queue) Groups(ctx context.Context, queue string) ([]job.GroupInfo, error) {
	return q.node.ListGroups(ctx, queue)
}

// GroupDefaults returns the limits of groups that have none of their own: those set for
// all groups, or those of WorkConfig.Group if this program works on the queue.
func (q *Queue) GroupDefaults(ctx context.Context, queue string) (job.GroupLimits, error) {
	return q.node.GroupDefaults(ctx, queue)
}
