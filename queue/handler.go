package queue

import (
	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/run"
	"github.com/bullpen-run/bullpen/job"
)

// AttemptOf tells a handler which attempt of its job it runs. Of a task that
// comes from no queue it says: the first one.
func AttemptOf(t bullpen.Task) job.Delivered { return run.DeliveredOf(t) }
