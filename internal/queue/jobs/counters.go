package jobs

import (
	"sync"
	"sync/atomic"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/histogram"
)

// Counters are the counts behind QueueStats. A job costs it about eight additions.
type Counters struct {
	Enqueued, Duplicates, Refused atomic.Uint64
	Taken, Redelivered            atomic.Uint64
	Retried, GaveBack             atomic.Uint64
	Dead, Quarantined             atomic.Uint64
	Ended                         [bullpen.OutcomeCount]atomic.Uint64
	Wait, Run                     histogram.Counter
}

// MostCounted bounds how many queues are counted separately, at 3 kB each. Further queues
// are counted together under the empty name, which no queue has.
const MostCounted = 1000

// queueCounters are the counts by queue.
type queueCounters struct {
	byQueue sync.Map // of *Counters by name; read on every enqueue, written once a name
	mu      sync.Mutex
	n       int // entries of byQueue; guarded by mu
}

// Of returns the counts of a queue.
func (t *queueCounters) Of(queue string) *Counters {
	if found, ok := t.byQueue.Load(queue); ok {
		return found.(*Counters) //nolint:forcetypeassert // nothing else is put in
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n >= MostCounted {
		queue = ""
	}
	found, there := t.byQueue.LoadOrStore(queue, new(Counters))
	if !there {
		t.n++
	}
	return found.(*Counters) //nolint:forcetypeassert // see above
}

// All calls f for each queue that has counts.
func (t *queueCounters) All(f func(queue string, c *Counters)) {
	t.byQueue.Range(func(name, c any) bool {
		f(name.(string), c.(*Counters)) //nolint:forcetypeassert // see above
		return true
	})
}

// Known returns the counts of a queue, nil if it has none.
func (t *queueCounters) Known(queue string) *Counters {
	if found, ok := t.byQueue.Load(queue); ok {
		return found.(*Counters) //nolint:forcetypeassert // nothing else is put in
	}
	return nil
}

// Outcomes returns how many jobs ended with each outcome.
func (c *Counters) Outcomes() map[bullpen.Outcome]uint64 {
	counts := make(map[bullpen.Outcome]uint64)
	for o := range c.Ended {
		if n := c.Ended[o].Load(); n > 0 {
			counts[bullpen.Outcome(o)] = n
		}
	}
	return counts
}
