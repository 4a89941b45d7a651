package run

import (
	"strconv"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// DeliveredOf implements queue.AttemptOf.
func DeliveredOf(t bullpen.Task) job.Delivered {
	d := job.Delivered{
		Attempt: 1, Redelivered: t.Meta[record.MetaRedelivered] != "", Parent: t.Meta[record.MetaParent],
		Undoes: t.Meta[record.MetaUndoes], Task: t.Meta[record.MetaTask], Chain: t.Meta[record.MetaChain], Batch: t.Meta[record.MetaBatch],
		Reason: job.Reason(t.Meta[record.MetaReason]), Outcome: t.Meta[record.MetaOutcome], Error: t.Meta[record.MetaError],
		Schedule: t.Meta[record.MetaSchedule],
	}
	if at, err := time.Parse(time.RFC3339Nano, t.Meta[record.MetaTick]); err == nil {
		d.Tick = at
	}
	if n, err := strconv.Atoi(t.Meta[record.MetaAttempt]); err == nil && n > 0 {
		d.Attempt = n
	}
	if o, ok := t.Observer.(*observed); ok {
		d.Since, d.Due = o.since, o.due
	}
	if n, err := strconv.Atoi(t.Meta[record.MetaLink]); err == nil && n > 0 {
		d.Link = n
	}
	if d.Batch != "" {
		d.Index = -1
	}
	if n, err := strconv.Atoi(t.Meta[record.MetaIndex]); err == nil && n >= 0 {
		d.Index = n
	}
	return d
}
