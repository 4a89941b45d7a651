package trace

import (
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/queue"
)

// Ended tells of a job whose outcome was just made durable; it is for
// queue.Config.Ended.
func (t *Tracer) Ended(i *queue.Info) {
	if t == nil {
		return
	}
	at := t.job(i.ID, i.Meta)
	if !at.Sampled {
		return
	}
	now := time.Now()
	spans := make([]span, 0, 3)
	job := span{trace: at.Trace, id: at.Span, parent: at.above, state: at.state, name: named("job", i.Name), kind: kindInternal}
	job.between(i.Enqueued, now)
	describe(&job, i)
	job.text(keyPriority, i.Priority.String())
	job.text(keyState, i.State.String())
	job.text(keyOutcome, i.Outcome.String())
	job.text(keyReason, string(i.Reason))
	job.number(keyAttempts, int64(i.Attempts))
	job.text("bullpen.job.parent", i.Parent)
	if i.State == queue.Dead {
		job.text(keyError, i.Outcome.String())
		job.fail(firstLine(i.Err))
	}
	spans = append(spans, job)
	if i.Attempts == 0 { // nobody has told of its waiting
		wait := at.below("wait", kindConsumer)
		wait.between(i.Enqueued, i.Ended)
		describe(&wait, i)
		spans = append(spans, wait)
	}
	outcome := at.below("outcome", kindInternal)
	outcome.between(i.Ended, now)
	describe(&outcome, i)
	outcome.text(keyOutcome, i.Outcome.String())
	outcome.text(keyNode, t.node)
	if i.Outcome != bullpen.OK {
		outcome.text(keyReason, string(i.Reason))
	}
	t.exporter.put(append(spans, outcome)...)
}

func describe(s *span, i *queue.Info) {
	s.text("messaging.system", "bullpen")
	s.text("messaging.destination.name", i.Queue)
	s.text("messaging.message.id", i.ID)
	s.text(keyPool, i.Queue)
	s.text(keyTask, i.Name)
	s.text(keyJob, i.ID)
}
