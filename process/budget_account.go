package process

import (
	"math"
	"sync/atomic"

	"github.com/bullpen-run/bullpen"
)

// purpose is what a start is for. The waiting are served in this order, and
// those of one purpose in the order in which they came.
type purpose uint8

const (
	forNothing purpose = iota // not waiting
	forMin                    // promised
	forTask
	forSpare // may wait, and takes nothing from anybody
)

// account is what the ledger knows of one pool. Budget.mu guards the fields from
// min on; those before are set once, but for the atomic ones, which the pool
// writes.
type account struct {
	name     string
	declared bool                // its need is told, not measured
	gives    bool                // it has workers that idle
	poke     func()              // makes the pool's keeper look; does not wait
	room     *bullpen.RoomSignal // of the pool

	rested atomic.Int64 // since when the worker that idles longest does; 0: none
	idle   atomic.Int32 // workers that idle

	min     int     // workers promised to it
	plan    int64   // bytes of one worker, when it joined
	need    int64   // the same, by what is known now
	workers int     // that have room
	bytes   int64   // with which they count
	waits   purpose // what it waits for
	since   int64   // when it began to wait
	turn    int64   // how long it waits before busy workers are asked to give way
	pressed int64   // when that was done last, or since
	asked   int     // idle workers that it has yet to let leave for others
	giving  int     // these, and those that leave already
	hurried int     // workers that it has yet to let leave, busy or not
	ceding  int     // these, and those that leave already
	refused int64   // the value of rested when it had none to give
}

// mean is the size of one of its workers.
func (a *account) mean() int64 {
	if a.workers == 0 {
		return max(a.need, 1)
	}
	return max(a.bytes/int64(a.workers), 1)
}

// surplus is how many workers it has beyond those promised, and not asked for
// yet.
func (a *account) surplus() int { return a.workers - a.giving - a.ceding - a.min }

// departure is how a worker came to leave.
type departure uint8

const (
	onItsOwn departure = iota // not for another pool
	wasAsked
	wasPressed
)

// tokens bounds a rate: one is taken for each start.
type tokens struct {
	rate, burst float64 // a second; at once
	left        float64
	at          int64
}

// take takes a token and returns now; without one, it returns when there will be
// one.
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
