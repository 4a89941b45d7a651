package run

import (
	"context"

	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// background runs what has to ask the store, again and again until it succeeds,
// then then. When the store is closed or has failed, the job is left alone.
func (a *attempt) background(ask func(context.Context) error, then func()) {
	q := a.queue
	q.Spawn(func() { // ends when ask succeeds, at the latest with live or the store
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
