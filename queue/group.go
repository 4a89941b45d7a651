package queue

import (
	"context"

	"github.com/bullpen-run/bullpen/job"
)

// SetGroupLimits sets the limits of one group of a queue, on all nodes and at
// once, in place of what WorkConfig.Group says; what runs goes on. With an empty
// group it sets those of all groups that have none of their own. They stay until
// they are set anew or reset. It costs one message to the store and one sync.
func (q *Queue) SetGroupLimits(ctx context.Context, queue, group string, l job.GroupLimits) error {
	return q.node.SetGroupLimits(ctx, queue, group, l)
}

// ResetGroupLimits takes back what SetGroupLimits has set for a group, or with an
// empty one for all that have none of their own. None set is no error.
func (q *Queue) ResetGroupLimits(ctx context.Context, queue, group string) error {
	return q.node.ResetGroupLimits(ctx, queue, group)
}

// Groups returns the groups of a queue that have jobs waiting or running, or
// limits of their own, by name. Where this program works the queue and alone has
// the store, it costs no more than reading what is known here. Otherwise the jobs
// that wait are read from the store, 100 000 at most.
func (q *Queue) Groups(ctx context.Context, queue string) ([]job.GroupInfo, error) {
	return q.node.Groups(ctx, queue)
}

// GroupDefaults returns the limits of the groups of a queue that have none of
// their own: those that were set for all, else those of WorkConfig.Group where
// this program works the queue.
func (q *Queue) GroupDefaults(ctx context.Context, queue string) (job.GroupLimits, error) {
	return q.node.GroupDefaults(ctx, queue)
}
