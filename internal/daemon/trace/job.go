package trace

import (
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// Ended exports the span of a job whose outcome was just made durable; it is for
// queue.Config.Ended.
func (t *Tracer) Ended(i *job.Info) {
	if t == nil {
		return
	}
	at := t.job(i.ID, i.Meta)
	if !at.Sampled {
		return
	}
	now := time.Now()
	spans := make([]span, 0, 3)
	whole := span{trace: at.Trace, id: at.Span, parent: at.above, state: at.state, name: named("job", i.Name), kind: kindInternal}
	whole.between(i.Enqueued, now)
	describe(&whole, i)
	whole.text(keyPriority, i.Priority.String())
	whole.text(keyState, i.State.String())
	whole.text(keyOutcome, i.Outcome.String())
	whole.text(keyReason, string(i.Reason))
	whole.number(keyAttempts, int64(i.Attempts))
	whole.text("bullpen.job.parent", i.Parent)
	if i.State == job.Dead {
		whole.text(keyError, i.Outcome.String())
		whole.fail(firstLine(i.Err))
	}
	spans = append(spans, whole)
	if i.Attempts == 0 { // no attempt has exported its wait
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

func describe(s *span, i *job.Info) {
	s.text("messaging.system", "bullpen")
	s.text("messaging.destination.name", i.Queue)
	s.text("messaging.message.id", i.ID)
	s.text(keyPool, i.Queue)
	s.text(keyTask, i.Name)
	s.text(keyJob, i.ID)
}
