package broker

import (
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

const (
	// defaultReserve is how much has to be free, unless a fiftieth of the disk
	// is less: enough to end some hundred thousand jobs.
	defaultReserve = 128 << 20
	defaultInodes  = 1000
	fraction       = 50
	// smallReserve is the least on a small disk, where a fiftieth is not enough
	// for the files that the server begins, unless it is a quarter of all.
	smallReserve = 16 << 20
	// spaceAge is how long an answer about free space holds.
	spaceAge = time.Second
)

// room says whether the disk has room for more jobs.
type room struct {
	dir     string
	reserve int64 // 0 is the default
	space   func(dir string) (space, bool, error)
	log     *slog.Logger

	mu    sync.Mutex
	asked time.Time // guarded by mu
	err   error     // guarded by mu: the answer of then
	left  int64     // guarded by mu: how much may be taken before it is asked again
	blind bool      // guarded by mu: it was told that the answer is not known
}

// ask returns nil, or why there is no room for size bytes more. What is taken
// between two looks is counted, so that a fast caller does not eat the reserve.
func (r *room) ask(size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left -= size
	if now := time.Now(); r.asked.IsZero() || now.Sub(r.asked) >= spaceAge || r.err == nil && r.left < 0 {
		r.asked = now
		r.err = r.look()
	}
	return r.err
}

// look asks the system. The caller holds mu.
func (r *room) look() error {
	s, ok, err := r.space(r.dir)
	if err != nil {
		ok = false
		if !r.blind {
			r.log.Error("how much space is free is not known; jobs are taken all the same", "folder", r.dir, "error", err)
			r.blind = true
		}
	}
	if !ok {
		r.left = math.MaxInt64
		return nil
	}
	reserve := r.reserve
	if reserve == 0 {
		reserve = min(defaultReserve, max(s.total/fraction, min(smallReserve, s.total/4)))
	}
	// A job costs more than its own bytes: its outcome, and what the server notes.
	r.left = (s.free - reserve) / 4
	if s.free < reserve {
		return fmt.Errorf("%w: the disk of %s has %d bytes free, and %d are kept for jobs under way: free some space, or lower the reserve",
			engine.ErrFull, r.dir, s.free, reserve)
	}
	if inodes := min(defaultInodes, s.allInodes/fraction); s.allInodes > 0 && s.inodes < inodes {
		return fmt.Errorf("%w: the disk of %s has room for %d more files only, and %d are kept for jobs under way: remove some files",
			engine.ErrFull, r.dir, s.inodes, inodes)
	}
	return nil
}

// clamp multiplies and bounds what a system says.
func clamp[N int64 | uint64](n N, size int64) int64 {
	if n <= 0 || size <= 0 { // some give a negative number when more is used than free to us
		return 0
	}
	if uint64(n) > math.MaxInt64/uint64(size) {
		return math.MaxInt64
	}
	return int64(n) * size
}
