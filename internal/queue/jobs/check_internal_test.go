package jobs

import (
	"math"
	"reflect"
	"slices"
	"testing"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// TestWhatIsTakenCanBeRead has jobs at the edge of what check takes: one that is
// taken must come back out of the store as it was.
func TestWhatIsTakenCanBeRead(t *testing.T) {
	t.Parallel()
	config := Config{MaxPayload: 512 << 10}
	many := slices.Repeat([]bullpen.Outcome{bullpen.Failed}, 12)
	for name, j := range map[string]job.Job{
		"CPU that is no number":        {Limits: bullpen.Limits{CPU: math.NaN()}},
		"CPU without end":              {Limits: bullpen.Limits{CPU: math.Inf(1)}},
		"CPU below zero by its sign":   {Limits: bullpen.Limits{CPU: math.Copysign(0, -1)}},
		"outcomes named several times": {Retry: job.Retry{On: append(many, bullpen.Panic)}},
	} {
		if config.checkJob(&j) != nil {
			continue // refused, which is well
		}
		s := &record.Job{ID: newID(), Job: j}
		got, err := record.DecodeJob(s.ID, s.Encode())
		if err != nil {
			t.Errorf("%s: it is taken, and cannot be read: %v", name, err)
			continue
		}
		for _, o := range bullpen.Outcomes() {
			if got.Job.Retry.Allows(o) != j.Retry.Allows(o) {
				t.Errorf("%s: it comes back with other outcomes to try after: %v", name, got.Job.Retry.On)
			}
		}
		if !reflect.DeepEqual(got.Job.Limits, j.Limits) && j.Limits.CPU != 0 {
			t.Errorf("%s: it comes back with %+v", name, got.Job.Limits)
		}
	}
}
