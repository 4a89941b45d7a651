package cron

import (
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/queue/jobs"
)

// ScheduleCounters are what is counted of ticks.
type ScheduleCounters struct {
	Known                          atomic.Int64
	Fired, Skipped, Missed, Failed atomic.Uint64
	Late                           jobs.Histogram
}

// wasLate counts a tick whose job was confirmed so late. One that a fast clock has
// fired early was not.
func (c *ScheduleCounters) wasLate(d time.Duration) { c.Late.Add(d) }
