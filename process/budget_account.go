package process

import (
	"math"
	"sync/atomic"

	"github.com/bullpen-run/bullpen"
)

// purpose is what a worker is started for. Waiting pools are served in this order, and
// first come, first served within a purpose.
type purpose uint8

const (
	forNothing purpose = iota // not waiting
	forMin                    // promised workers
	forTask
	forSpare // never makes another worker leave
)

// account holds what the ledger knows of one pool. Budget.mu guards the fields from min
// on. The fields before are set once, except the atomic ones, which the pool writes.
type account struct {
	name     string
	declared bool                // need was configured, not measured
	gives    bool                // the pool has idle processes
	poke     func()              // wakes the pool's keeper; never blocks
	room     *bullpen.RoomSignal // wakes the callers of Pool.Room

	rested atomic.Int64 // when the longest idle worker became idle; 0 without one
	idle   atomic.Int32 // number of idle workers

	min     int     // workers promised to it
	plan    int64   // bytes per worker, as of join
	need    int64   // bytes per worker, updated by measurements
	workers int     // number of workers that have room
	bytes   int64   // that these workers count with
	waits   purpose // purpose of the worker it waits for
	since   int64   // when the wait began
	turn    int64   // how long it waits before busy workers must leave
	pressed int64   // when busy workers last had to leave, or since
	asked   int     // requested idle workers that do not leave yet
	giving  int     // asked, and those already leaving
	hurried int     // requested workers, busy or not, that do not leave yet
	ceding  int     // hurried, and those already leaving
	refused int64   // value of rested when it last refused a request
}

// mean returns the mean size of the pool's workers in bytes.
func (a *account) mean() int64 {
	if a.workers == 0 {
		return max(a.need, 1)
	}
	return max(a.bytes/int64(a.workers), 1)
}

// surplus returns the number of workers beyond the promised ones that have not been
// requested yet.
func (a *account) surplus() int { return a.workers - a.giving - a.ceding - a.min }

// departure is why a worker leaves.
type departure uint8

const (
	onItsOwn departure = iota // not for another pool
	wasAsked
	wasPressed
)

// tokens bounds a rate: one is taken for each start.
type tokens struct {
	rate, burst float64 // tokens per second; most at once
	left        float64
	at          int64
}

// take takes a token and returns now. If there is no token, it returns the time of the
// next one.
func (t *tokens) take(now int64) int64 {
	if t.rate == 0 {
		return now
	}
	t.left = min(t.burst, t.left+float64(now-t.at)*t.rate/1e9)
	t.at = now
	if t.left < 1 {
		return now + max(1, int64(math.Ceil((1-t.left)/t.rate*1e9)))
	}
	t.left--
	return now
}
