package jobs

import (
	"context"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Scheduled is that of a queue.
func (q *Jobs) Scheduled(ctx context.Context) (int64, error) {
	return q.Matching(ctx, engine.Jobs, "at.*")
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

// Matching counts the messages on subjects.
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
	if m.counts == nil || len(m.counts) >= MostTallies {
		m.counts = make(map[string]matchCount)
	}
	m.counts[subject] = matchCount{n: n, expiry: after.Add(matchAge * after.Sub(now))}
	return n, nil
}
