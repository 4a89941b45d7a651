package queue

import (
	"context"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Counts is how many jobs of a queue there are.
type Counts struct {
	// Waiting jobs can start; Taken ones run, or wait a short time for another
	// attempt, or for their outcome to reach the disk.
	Waiting, Taken int64
	// Dead jobs failed for good and are kept.
	Dead int64
	// Oldest is when the job that has been here longest was stored; zero for none.
	Oldest time.Time
	Paused bool
}

// Counts returns how many jobs of a queue there are. It asks the store, which for
// the dead takes about a millisecond for 20 000 of them; so an answer about these is
// used again for fifty times as long as it took.
func (q *Queue) Counts(ctx context.Context, queue string) (Counts, error) {
	depths, err := q.Depth(ctx, queue)
	if err != nil {
		return Counts{}, err
	}
	var c Counts
	for _, d := range depths {
		c.Waiting += int64(d.Waiting)
		c.Taken += int64(d.Taken)
		c.Paused = c.Paused || d.Paused
		if !d.Oldest.IsZero() && (c.Oldest.IsZero() || d.Oldest.Before(c.Oldest)) {
			c.Oldest = d.Oldest
		}
	}
	c.Dead, err = q.matching(ctx, engine.Dead, "dead."+queue+".*")
	return c, err
}

// Scheduled returns how many jobs of all queues wait for their time. To which queue
// each belongs only a list tells. It costs as much as [Queue.Counts].
func (q *Queue) Scheduled(ctx context.Context) (int64, error) {
	return q.matching(ctx, engine.Jobs, "at.*")
}

// matchAge is for how long a count is used again, as a multiple of how long it took.
const matchAge = 50

// matched are counts that the store was asked for lately.
type matched struct {
	mu     sync.Mutex
	counts map[string]matchCount // by subject; guarded by mu
}

type matchCount struct {
	n      int64
	expiry time.Time
}

// matching counts the messages on subjects.
func (q *Queue) matching(ctx context.Context, s engine.Stream, subject string) (int64, error) {
	m := &q.matched
	now := time.Now()
	m.mu.Lock()
	known, ok := m.counts[subject]
	m.mu.Unlock()
	if ok && now.Before(known.expiry) {
		return known.n, nil
	}
	n, err := q.engine.Matching(ctx, s, subject)
	if err != nil {
		return 0, storeError(err)
	}
	after := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil || len(m.counts) >= mostTallies {
		m.counts = make(map[string]matchCount)
	}
	m.counts[subject] = matchCount{n: n, expiry: after.Add(matchAge * after.Sub(now))}
	return n, nil
}
