package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Scheduled implements queue.Queue.Scheduled.
func (q *Jobs) Scheduled(ctx context.Context) (int64, error) {
	return q.Matching(ctx, engine.Jobs, "at.*")
}

// matchAge is how long a count is reused, as a multiple of how long it took.
const matchAge = 50

// matched caches counts of the store.
type matched struct {
	mu     sync.Mutex
	counts map[string]matchCount // by subject; guarded by mu
}

type matchCount struct {
	n      int64
	expiry time.Time
}

// Matching returns the number of messages whose subject matches.
func (q *Jobs) Matching(ctx context.Context, s engine.Stream, subject string) (int64, error) {
	m := &q.matched
	now := time.Now()
	m.mu.Lock()
	known, ok := m.counts[subject]
	m.mu.Unlock()
	if ok && now.Before(known.expiry) {
		return known.n, nil
	}
	n, err := q.Engine.Matching(ctx, s, subject)
	if err != nil {
		return 0, StoreError(err)
	}
	after := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil || len(m.counts) >= MostCounted {
		m.counts = make(map[string]matchCount)
	}
	m.counts[subject] = matchCount{n: n, expiry: after.Add(matchAge * after.Sub(now))}
	return n, nil
}
