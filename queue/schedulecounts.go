package queue

import "github.com/bullpen-run/bullpen/internal/queue/cron"

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

// ticksOf gives what is counted of ticks.
func ticksOf(c *cron.ScheduleCounters) ScheduleStats {
	return ScheduleStats{
		Known: int(c.Known.Load()), Fired: c.Fired.Load(), Skipped: c.Skipped.Load(), Missed: c.Missed.Load(), Failed: c.Failed.Load(),
		Late: Histogram(c.Late.Snapshot()),
	}
}
