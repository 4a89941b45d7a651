package queue

import (
	"sync/atomic"
	"time"
)

// ScheduleStats is what FireSchedules has done since Open.
type ScheduleStats struct {
	// Known is how many schedules it fires now, paused ones left out.
	Known int
	// Fired ticks have enqueued a job. Skipped ones have not, because the last job
	// had not ended, or because they failed until the next tick; Missed ones have
	// not because no node was there. Only what this program dealt with is counted.
	Fired, Skipped, Missed uint64
	// Failed counts tries of ticks that could not enqueue their job.
	Failed uint64
	// Late is how late the jobs of ticks were confirmed, missed ticks left out.
	Late Lateness
}

// Lateness is a histogram of how late ticks were.
type Lateness struct {
	Count    uint64
	Sum, Max time.Duration
	// Within counts those that were not later than LatenessBounds says.
	Within [len(latenessBounds)]uint64
}

var latenessBounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// LatenessBounds returns the bounds of the histogram of ScheduleStats.Late.
func LatenessBounds() []time.Duration { return append([]time.Duration(nil), latenessBounds[:]...) }

type scheduleCounters struct {
	known                          atomic.Int64
	fired, skipped, missed, failed atomic.Uint64
	late                           [len(latenessBounds) + 1]atomic.Uint64
	lateSum, lateMax               atomic.Int64
}

// wasLate counts a tick whose job was confirmed so late.
func (c *scheduleCounters) wasLate(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(latenessBounds) && d > latenessBounds[i] {
		i++
	}
	c.late[i].Add(1)
	c.lateSum.Add(int64(d))
	for most := c.lateMax.Load(); int64(d) > most && !c.lateMax.CompareAndSwap(most, int64(d)); most = c.lateMax.Load() {
	}
}

func (c *scheduleCounters) stats() ScheduleStats {
	s := ScheduleStats{
		Known: int(c.known.Load()), Fired: c.fired.Load(), Skipped: c.skipped.Load(), Missed: c.missed.Load(), Failed: c.failed.Load(),
		Late: Lateness{Sum: time.Duration(c.lateSum.Load()), Max: time.Duration(c.lateMax.Load())},
	}
	for i := range c.late {
		s.Late.Count += c.late[i].Load()
		if i < len(s.Late.Within) {
			s.Late.Within[i] = s.Late.Count
		}
	}
	return s
}
