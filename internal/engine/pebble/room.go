package pebble

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bullpen-run/bullpen/internal/engine"
)

const (
	// defaultReserve is how much must be free, unless a fiftieth of the disk is less. It
	// suffices to end some hundred thousand jobs.
	defaultReserve = 128 << 20
	fraction       = 50
	// smallReserve is the minimum on a small disk, unless a quarter of the disk is less.
	smallReserve = 16 << 20
	// spaceAge is how long a reading of the free space is used.
	spaceAge = time.Second
	// baseSize is the size of the first level of tables below the flushed ones.
	baseSize = 64 << 20
)

// room checks whether the disk has room for more jobs.
type room struct {
	fs      vfs.FS
	dir     string
	reserve int64 // 0 is the default
	// debt returns how much more space compactions take temporarily.
	debt func() int64
	log  *slog.Logger

	mu    sync.Mutex
	asked time.Time // guarded by mu
	err   error     // the last answer; guarded by mu
	left  int64     // bytes until the next reading; guarded by mu
	blind bool      // an unknown answer was reported; guarded by mu
}

func newRoom(c Config, debt func() int64) *room {
	return &room{fs: c.FS, dir: c.Dir, reserve: c.Reserve, debt: debt, log: c.Options.Logger}
}

// tableDebt returns how much space the store takes until its compactions are done. Memory
// is written as a table, and tables are rewritten before the old ones are removed; the
// first level below is bounded to baseSize.
func (e *Engine) tableDebt() (debt int64) {
	if e.reading() != nil {
		return 0
	}
	defer e.open.RUnlock()
	_ = e.untilHalt(func() error { // an error means that the store has failed, which is reported elsewhere
		m := e.db.Metrics()
		top := m.Levels[0].TablesSize
		below := int64(0)
		for _, level := range m.Levels[1:] {
			below += level.TablesSize
		}
		debt = int64(m.MemTable.Size) + 2*top + min(below, baseSize)
		return nil
	})
	return debt
}

// ask returns why there is no room for size more bytes, or nil. Bytes accepted between
// two readings are counted, so that a fast caller does not use up the reserve.
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

// look reads the free space. mu is held.
func (r *room) look() error {
	usage, err := r.fs.GetDiskUsage(r.dir)
	if err != nil {
		if !r.blind && !errors.Is(err, vfs.ErrUnsupported) {
			r.log.Error("the free disk space is unknown; jobs are accepted anyway", "folder", r.dir, "error", err)
		}
		r.blind = true
		r.left = math.MaxInt64
		return nil
	}
	total, free := clamp(usage.TotalBytes), clamp(usage.AvailBytes)
	reserve := r.reserve
	if reserve == 0 {
		reserve = min(defaultReserve, max(total/fraction, min(smallReserve, total/4)))
	}
	reserve += r.debt()
	// A job costs more than its own bytes: its outcome, and what is written twice.
	r.left = (free - reserve) / 8
	if free < reserve {
		return fmt.Errorf("%w: the disk of %s has %d bytes free, but %d are reserved for accepted jobs: free some space, or lower the reserve",
			engine.ErrFull, r.dir, free, reserve)
	}
	return nil
}

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
