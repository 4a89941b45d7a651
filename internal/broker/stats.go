package broker

import (
	"slices"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// recent is how many of the last syncs the figures are about.
const recent = 1024

// stats keeps the figures of the disk.
type stats struct {
	mu       sync.Mutex
	syncs    int64                 // guarded by mu
	confirms int64                 // guarded by mu
	ring     [recent]time.Duration // guarded by mu
}

func (s *stats) synced(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring[s.syncs%recent] = took
	s.syncs++
}

func (s *stats) confirmed(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.confirms += int64(n)
}

func (s *stats) get() engine.SyncStats {
	s.mu.Lock()
	out := engine.SyncStats{Syncs: s.syncs, Confirms: s.confirms}
	last := slices.Clone(s.ring[:min(s.syncs, recent)])
	s.mu.Unlock()
	if len(last) == 0 {
		return out
	}
	out.Last = last[(out.Syncs-1)%recent]
	slices.Sort(last)
	at := func(percent int) time.Duration { return last[(len(last)*percent+99)/100-1] }
	out.P50, out.P99, out.Max = at(50), at(99), last[len(last)-1]
	return out
}
