package jobs

import (
	"context"

	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// EnqueueDerived enqueues a job whose id is derived. It is no error if the job was
// enqueued before: while it is in the queue it is not put again, and once it has ended
// the second copy finds its outcome instead of running.
func (q *Jobs) EnqueueDerived(ctx context.Context, s *record.Job) (job.Ref, error) {
	s.Derived = true
	return q.enqueueUnder(ctx, s, false)
}
