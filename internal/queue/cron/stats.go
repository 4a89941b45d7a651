package cron

import (
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/histogram"
)

// ScheduleCounters counts ticks.
type ScheduleCounters struct {
	Known                          atomic.Int64
	Fired, Skipped, Missed, Failed atomic.Uint64
	Late                           histogram.Counter
}

// wasLate counts how late a tick's job was confirmed. A negative d, from a clock that is
// fast, counts as not late.
func (c *ScheduleCounters) wasLate(d time.Duration) { c.Late.Add(d, 1) }
