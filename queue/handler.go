package queue

import (
	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/run"
	"github.com/bullpen-run/bullpen/job"
)

// AttemptOf returns which attempt of its job a handler runs. For a task that comes from
// no queue that is the first.
func AttemptOf(t bullpen.Task) job.Delivered { return run.DeliveredOf(t) }
