package queue_test

import (
	"testing"

	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// Check finds what Open finds, and opens nothing.
func TestCheckIsThatOfOpen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]queue.Config{
		"nothing": {},
		"several": {Store: queue.Memory(), Namespace: "A", Lease: 1, KeyWindow: -1, MaxPayload: -1, Keep: job.Keep{Jobs: -1}, Retry: job.Retry{Attempts: -1}},
	} {
		q, err := queue.Open(t.Context(), c)
		if err == nil {
			t.Errorf("%s: Open has no fault to tell", name)
			_ = q.Close()
			continue
		}
		if c.Check() == nil {
			t.Errorf("%s: Check says nothing, Open says %v", name, err)
		}
	}
	if err := (queue.Config{Store: queue.Memory()}).Check(); err != nil {
		t.Error(err)
	}
}
