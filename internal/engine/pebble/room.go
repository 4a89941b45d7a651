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
	// defaultReserve is how much has to be free, unless a fiftieth of the disk is
	// less: enough to end some hundred thousand jobs.
	defaultReserve = 128 << 20
	fraction       = 50
	// smallReserve is the least on a small disk, unless it is a quarter of all.
	smallReserve = 16 << 20
	// spaceAge is how long an answer about free space holds.
	spaceAge = time.Second
	// baseSize is that of the first level of tables below those that were flushed.
	baseSize = 64 << 20
)

// room says whether the disk has room for more jobs.
type room struct {
	fs      vfs.FS
	dir     string
	reserve int64 // 0 is the default
	// debt is how much more room the store takes for a time, to sort itself out.
	debt func() int64
	log  *slog.Logger

	mu    sync.Mutex
	asked time.Time // +checklocks:mu
	err   error     // the answer of then; +checklocks:mu
	left  int64     // how much may be taken before it is asked again; +checklocks:mu
	blind bool      // it was told that the answer is not known; +checklocks:mu
}

func newRoom(c Config, debt func() int64) *room {
	return &room{fs: c.FS, dir: c.Dir, reserve: c.Reserve, debt: debt, log: c.Options.Logger}
}

// tableDebt is how much room the store takes until what it is sorting is sorted: what
// is in memory is written as a table, and tables are written anew before the old ones
// go, of which the first level below is bounded to baseSize.
func (e *Engine) tableDebt() (debt int64) {
	if e.reading() != nil {
		return 0
	}
	defer e.open.RUnlock()
	_ = e.guarded(func() error { // an error says that the store has failed, which others tell
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
	usage, err := r.fs.GetDiskUsage(r.dir)
	if err != nil {
		if !r.blind && !errors.Is(err, vfs.ErrUnsupported) {
			r.log.Error("how much space is free is not known; jobs are taken all the same", "folder", r.dir, "error", err)
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
		return fmt.Errorf("%w: the disk of %s has %d bytes free, and %d are kept for jobs under way: free some space, or lower the reserve",
			engine.ErrFull, r.dir, free, reserve)
	}
	return nil
}

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
