package queue

import (
	"sync/atomic"
	"time"
)

// ScheduleStats is what FireSchedules has done since Open.
type ScheduleStats struct {
	// Known is how many schedules it fires now; paused ones are not among them.
	Known int
	// Fired ticks have enqueued a job. Skipped ones have not, because the last job
	// had not ended; Missed ones have not because no node could enqueue it in time.
	// Only what this program dealt with is counted.
	Fired, Skipped, Missed uint64
	// Failed counts tries of ticks that could not enqueue their job.
	Failed uint64
	// Late is how late the jobs of ticks were confirmed, missed ticks left out.
	Late Histogram
}

type scheduleCounters struct {
	known                          atomic.Int64
	fired, skipped, missed, failed atomic.Uint64
	late                           histogram
}

// wasLate counts a tick whose job was confirmed so late. One that a fast clock has
// fired early was not.
func (c *scheduleCounters) wasLate(d time.Duration) { c.late.add(d) }

func (c *scheduleCounters) stats() ScheduleStats {
	return ScheduleStats{
		Known: int(c.known.Load()), Fired: c.fired.Load(), Skipped: c.skipped.Load(), Missed: c.missed.Load(), Failed: c.failed.Load(),
		Late: c.late.snapshot(),
	}
}
