package queue

import (
	"github.com/bullpen-run/bullpen/internal/queue/cron"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// Check reports all faults of c that [Open] would find before it opens the store.
func (c Config) Check() error { return c.check() }

// CheckSchedule reports all faults of s at once that PutSchedule would find on a queue
// with this config.
func (c Config) CheckSchedule(s *job.Schedule) error {
	inner := c.withDefaults().inner()
	return cron.Check(&inner, s)
}

// inner returns what of c is not about the store. It is called with all defaults.
func (c Config) inner() jobs.Config {
	return jobs.Config{
		Node: c.Node, Lease: c.Lease, Retry: c.Retry, KeyWindow: c.KeyWindow, Keep: c.Keep,
		MaxPayload: c.MaxPayload, MaxResult: c.MaxResult, Refuse: c.Refuse, Logger: c.Logger, Ended: c.Ended,
	}
}
