package pebble

import (
	"slices"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// syncs measures the last batches.
type syncs struct {
	mu       sync.Mutex
	last     [1024]time.Duration // a ring; guarded by mu
	n        int64               // guarded by mu
	confirms int64               // guarded by mu
}

func (s *syncs) add(took time.Duration, confirms int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last[s.n%int64(len(s.last))] = took
	s.n++
	s.confirms += int64(confirms)
}

func (s *syncs) stats() engine.SyncStats {
	s.mu.Lock()
	n := int(min(s.n, int64(len(s.last))))
	all := slices.Clone(s.last[:n])
	stats := engine.SyncStats{Syncs: s.n, Confirms: s.confirms}
	if n > 0 {
		stats.Last = s.last[(s.n-1)%int64(len(s.last))]
	}
	s.mu.Unlock()
	if n > 0 {
		slices.Sort(all)
		stats.P50, stats.P99, stats.Max = all[n/2], all[n*99/100], all[n-1]
	}
	return stats
}
