package queue_test

import (
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/queue/queuetest"
	"github.com/bullpen-run/bullpen/queue"
)

func TestContract(t *testing.T) {
	t.Parallel()
	store := queue.Memory()
	queuetest.Run(t, queuetest.Subject{
		Open: func(t *testing.T, c queue.Config) *queue.Queue {
			t.Helper()
			c.Store = store
			return queuetest.Open(t, c)
		},
		Lease: 300 * time.Millisecond, Parallel: true,
	})
}
