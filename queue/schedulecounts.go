package queue

import (
	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/cron"
)

// ScheduleStats is what FireSchedules has done since Open.
type ScheduleStats struct {
	// Known is how many schedules it fires now, without the paused ones.
	Known int
	// Fired ticks enqueued a job. Skipped ticks did not, because the last job had not
	// ended. Missed ticks did not, because no node could enqueue the job in time. Each
	// program counts the ticks that it handled.
	Fired, Skipped, Missed uint64
	// Failed is how many attempts to enqueue the job of a tick failed.
	Failed uint64
	// Late is how long after their ticks jobs were confirmed, except those of missed
	// ticks.
	Late bullpen.Histogram
}

// ticksOf gives what is counted of ticks.
func ticksOf(c *cron.ScheduleCounters) ScheduleStats {
	return ScheduleStats{
		Known: int(c.Known.Load()), Fired: c.Fired.Load(), Skipped: c.Skipped.Load(), Missed: c.Missed.Load(), Failed: c.Failed.Load(),
		Late: c.Late.Snapshot(),
	}
}
