package queue

import (
	"slices"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
)

// QueueStats is what this program has done on one queue since Open. Each node of a
// store counts for itself; add them up.
type QueueStats struct {
	// Enqueued jobs were confirmed to this program. Duplicates had the key of an
	// existing job. Refused jobs found the queue full.
	Enqueued, Duplicates, Refused uint64
	// Taken jobs were delivered to this program; Redelivered is how many of them came
	// after the death of the node that had them.
	Taken, Redelivered uint64
	// Ended counts the outcomes that this program recorded.
	Ended map[bullpen.Outcome]uint64
	// Retried attempts were followed by another. GaveBack jobs were not started by the
	// executor and were returned.
	Retried, GaveBack uint64
	// Dead jobs have failed for good; Quarantined is how many of them had killed too
	// many workers or nodes.
	Dead, Quarantined uint64
	// Wait is how long jobs waited, from when they could start (when they were
	// enqueued, or their time or that of the next attempt came) until the executor got
	// them. Run is how long attempts ran.
	Wait, Run bullpen.Histogram
}

// QueueStats returns the counts of one queue; they are zero if this program has done
// nothing on it. It reads nothing from the store and takes about a microsecond.
func (q *Queue) QueueStats(queue string) QueueStats {
	c := q.jobs.Counters.Known(queue)
	if c == nil {
		return QueueStats{Ended: map[bullpen.Outcome]uint64{}}
	}
	return QueueStats{
		Enqueued: c.Enqueued.Load(), Duplicates: c.Duplicates.Load(), Refused: c.Refused.Load(),
		Taken: c.Taken.Load(), Redelivered: c.Redelivered.Load(), Ended: c.Outcomes(),
		Retried: c.Retried.Load(), GaveBack: c.GaveBack.Load(), Dead: c.Dead.Load(), Quarantined: c.Quarantined.Load(),
		Wait: c.Wait.Snapshot(), Run: c.Run.Snapshot(),
	}
}

// QueueNames returns the queues on which this program has done anything since Open, in
// order. After the first thousand, the others are counted under the empty name.
func (q *Queue) QueueNames() []string {
	var names []string
	q.jobs.Counters.All(func(name string, _ *jobs.Counters) { names = append(names, name) })
	slices.Sort(names)
	return names
}

// addTo adds the counts of one queue to those of all.
func addTo(s *Stats, c *jobs.Counters) {
	s.Enqueued += c.Enqueued.Load()
	s.Duplicates += c.Duplicates.Load()
	s.Refused += c.Refused.Load()
	s.Taken += c.Taken.Load()
	s.Redelivered += c.Redelivered.Load()
	s.Retried += c.Retried.Load()
	s.GaveBack += c.GaveBack.Load()
	s.Dead += c.Dead.Load()
	s.Quarantined += c.Quarantined.Load()
	for o, n := range c.Outcomes() {
		s.Ended[o] += n
	}
}
