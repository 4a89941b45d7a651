package run

import (
	"context"

	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// background runs ask, which reads from the store, until it succeeds, and then calls
// then. If the store is closed or has failed, the job is left alone.
func (a *attempt) background(ask func(context.Context) error, then func()) {
	q := a.queue
	q.Spawn(func() { // ends when ask succeeds, at the latest with Live or the store
		for wait := jobs.FirstPause; ; wait = min(2*wait, jobs.LastPause) {
			err := ask(q.Live)
			if err == nil {
				then()
				return
			}
			if q.Hopeless(err) || !q.PauseFor(wait) {
				a.abandoned(err)
				return
			}
			q.Journal.Emit(job.Event{Kind: job.NotKept, Job: a.id(), Text: err.Error()})
		}
	})
}
