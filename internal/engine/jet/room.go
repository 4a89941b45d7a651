package jet

import (
	"fmt"
	"sync"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// room enforces the bound of the stream of jobs. The size is what the server last
// reported plus what was put since. What was on its way when the server was asked may be
// counted twice until it is asked again.
type room struct {
	bound int64 // 0 is none

	mu      sync.Mutex
	base    int64 // guarded by mu: the size that the server reported
	since   int64 // guarded by mu: put since, or on its way when the server was asked
	flight  int64 // guarded by mu: put and not answered
	gone    int64 // guarded by mu: acknowledged since
	asked   int64 // guarded by mu: the tick when the server was last asked
	asking  bool  // guarded by mu
	touched bool  // guarded by mu: a message was put since
}

// Ticks between two questions: usually, and when there is no room.
const (
	lookEvery     = 4
	lookWhenTight = 1
)

// enter reserves room for size bytes; without room it returns an error.
func (r *room) enter(size int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bound > 0 && r.used()+size > r.bound {
		r.touched = true
		return fmt.Errorf("jet: %w: jobs use %d of %d bytes, and this one needs %d more; wait for jobs to end, cancel some, or raise the limit",
			engine.ErrFull, r.used(), r.bound, size)
	}
	r.since += size
	r.flight += size
	r.touched = true
	return nil
}

// used returns the size of the stream. r.mu is held.
func (r *room) used() int64 { return max(r.base+r.since-r.gone, 0) }

// answered records that a put of this size was answered.
func (r *room) answered(size int64, stored bool) {
	r.mu.Lock()
	r.flight -= size
	if !stored {
		r.since -= size
	}
	r.mu.Unlock()
}

// freed records that a message of this size was acknowledged.
func (r *room) freed(size int64) {
	r.mu.Lock()
	r.gone += size
	r.mu.Unlock()
}

// due reports whether to ask the server now, and marks that as begun.
func (r *room) due(tick int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bound == 0 || r.asking || !r.touched {
		return false
	}
	every := int64(lookEvery)
	if r.used() > r.bound/8*7 {
		every = lookWhenTight
	}
	if tick-r.asked < every {
		return false
	}
	r.asking, r.asked, r.touched = true, tick, false
	return true
}

// look returns what was put before the question and is certainly stored; the answer will
// include it.
func (r *room) look() (settled int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since - r.flight
}

// looked applies the answer.
func (r *room) looked(bytes uint64, settled int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.base = int64(bytes)
	r.since -= settled
	r.gone = 0
	r.asking = false
}

// failed records that no answer came.
func (r *room) failed() {
	r.mu.Lock()
	r.asking, r.touched = false, true
	r.mu.Unlock()
}

// storedSize returns how many bytes the server's file store uses for a message.
func storedSize(subject, header, data int) int64 {
	const record, sum = 22, 8
	n := record + subject + data + sum
	if header > 0 {
		n += header + 4
	}
	return int64(n)
}
