package queue

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// QueueStats is what this program has done on one queue since Open. The nodes of a
// store count each for itself: add them up.
type QueueStats struct {
	// Enqueued jobs were confirmed to this program; Duplicates had the key of a
	// job that was there; Refused found the queue full.
	Enqueued, Duplicates, Refused uint64
	// Taken jobs were handed to this program, Redelivered ones of them after the
	// death of the node that had them.
	Taken, Redelivered uint64
	// Ended counts the outcomes that this program recorded.
	Ended map[bullpen.Outcome]uint64
	// Retried attempts were followed by another; GaveBack ones were refused by the
	// executor, and never started.
	Retried, GaveBack uint64
	// Dead jobs failed for good, Quarantined ones of them for killing workers.
	Dead, Quarantined uint64
	// Wait is how long jobs waited, from when they could start (enqueued, or their
	// time came, or that of another attempt) to their hand-over to the executor.
	// Run is how long attempts ran that have ended.
	Wait, Run Histogram
}

// tally counts what QueueStats tells. A job costs it about eight additions.
type tally struct {
	enqueued, duplicates, refused atomic.Uint64
	taken, redelivered            atomic.Uint64
	retried, gaveBack             atomic.Uint64
	dead, quarantined             atomic.Uint64
	ended                         [bullpen.OutcomeCount]atomic.Uint64
	wait, run                     histogram
}

// mostTallies bounds how many queues are counted apart, at 3 kB each. What comes
// later is counted together under the empty name, which no queue has.
const mostTallies = 1000

// tallies are the counts by queue.
type tallies struct {
	byQueue sync.Map // of *tally by name; read on every enqueue, written once a name
	mu      sync.Mutex
	n       int // how many byQueue has; guarded by mu
}

// of returns the counts of a queue.
func (t *tallies) of(queue string) *tally {
	if found, ok := t.byQueue.Load(queue); ok {
		return found.(*tally) //nolint:forcetypeassert // nothing else is put in
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n >= mostTallies {
		queue = ""
	}
	found, there := t.byQueue.LoadOrStore(queue, new(tally))
	if !there {
		t.n++
	}
	return found.(*tally) //nolint:forcetypeassert // see above
}

// all calls f for all that there are.
func (t *tallies) all(f func(queue string, c *tally)) {
	t.byQueue.Range(func(name, c any) bool {
		f(name.(string), c.(*tally)) //nolint:forcetypeassert // see above
		return true
	})
}

// QueueStats returns the counts of one queue, zero for one on which this program
// has done nothing. It asks nobody and takes about a microsecond.
func (q *Queue) QueueStats(queue string) QueueStats {
	found, ok := q.tallies.byQueue.Load(queue)
	if !ok {
		return QueueStats{Ended: map[bullpen.Outcome]uint64{}}
	}
	c := found.(*tally) //nolint:forcetypeassert // nothing else is put in
	return QueueStats{
		Enqueued: c.enqueued.Load(), Duplicates: c.duplicates.Load(), Refused: c.refused.Load(),
		Taken: c.taken.Load(), Redelivered: c.redelivered.Load(), Ended: c.outcomes(),
		Retried: c.retried.Load(), GaveBack: c.gaveBack.Load(), Dead: c.dead.Load(), Quarantined: c.quarantined.Load(),
		Wait: c.wait.snapshot(), Run: c.run.snapshot(),
	}
}

// QueueNames returns the queues on which this program has done anything since
// Open, in order. Beyond a thousand the rest is counted under the empty name, as is
// what is known of no queue.
func (q *Queue) QueueNames() []string {
	var names []string
	q.tallies.all(func(name string, _ *tally) { names = append(names, name) })
	slices.Sort(names)
	return names
}

func (c *tally) outcomes() map[bullpen.Outcome]uint64 {
	counts := make(map[bullpen.Outcome]uint64)
	for o := range c.ended {
		if n := c.ended[o].Load(); n > 0 {
			counts[bullpen.Outcome(o)] = n
		}
	}
	return counts
}

// addTo adds the counts of one queue to those of all.
func (c *tally) addTo(s *Stats) {
	s.Enqueued += c.enqueued.Load()
	s.Duplicates += c.duplicates.Load()
	s.Refused += c.refused.Load()
	s.Taken += c.taken.Load()
	s.Redelivered += c.redelivered.Load()
	s.Retried += c.retried.Load()
	s.GaveBack += c.gaveBack.Load()
	s.Dead += c.dead.Load()
	s.Quarantined += c.quarantined.Load()
	for o, n := range c.outcomes() {
		s.Ended[o] += n
	}
}

// due is when the attempt could have started.
func (a *attempt) due() time.Time {
	due := a.stored.enqueued
	for _, t := range []time.Time{a.stored.job.At, a.tries.retryAt} {
		if t.After(due) {
			due = t
		}
	}
	if n := len(a.tries.history); n > 0 && a.tries.history[n-1].Ended.After(due) {
		due = a.tries.history[n-1].Ended
	}
	return due
}

// countRun counts how long an attempt ran that has ended.
func (a *attempt) countRun(end *attemptEnd) {
	ran := end.result.Stats.Ran
	if ran <= 0 {
		ran = end.at.Sub(a.handed) // its executor does not say
	}
	a.runner.tally.run.add(ran)
}
