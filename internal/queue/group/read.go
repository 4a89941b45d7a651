package group

import (
	"context"
	"errors"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// Read reads the record of a job that is kept without it, and renews its lease meanwhile.
// It returns nil if the job no longer exists or the store is closed.
func (q *Groups) Read(k *Job) []byte {
	for wait := jobs.FirstPause; ; wait = min(2*wait, jobs.LastPause) {
		m, err := q.Engine.Get(q.Live, engine.Jobs, k.Delivery.Subject)
		if err == nil {
			return m.Data
		}
		if errors.Is(err, engine.ErrNotFound) || q.Hopeless(err) || errors.Is(err, context.Canceled) || !q.PauseFor(wait) {
			return nil
		}
		k.Delivery.Extend()
		q.Journal.Emit(job.Event{Kind: job.NotKept, Job: k.ID, Text: err.Error()})
	}
}
