package pool

import (
	"time"

	"github.com/bullpen-run/bullpen"
)

// measured runs one item and measures how long it has waited and run.
func (w *worker) measured(it item, stamp int64) {
	k := w.pool.kindOf(it) // read it now, because the object may be reused as soon as the item has run
	start := w.pool.now()
	w.exact = start
	w.weight = 1
	if stamp != 0 {
		at, weight := unstamp(stamp)
		w.weight = weight
		w.home.of(k).wait.Add(time.Duration(start-at), weight)
		w.rare = w.stamped == 0 || start-w.stamped > rareGap
		w.stamped = start
	}
	w.inTask = true
	it.run(w)
	w.inTask = false
	w.ran(k, w.pool.now()-start)
	w.leaveLane()
}

// stampOf packs the time when an item was accepted, and how many items it stands for. It is
// never 0.
func stampOf(at int64, weight uint64) int64 { return at<<weightBits | int64(weight) }

func unstamp(stamp int64) (at int64, weight uint64) {
	return stamp >> weightBits, uint64(stamp) & (1<<weightBits - 1)
}

// weightBits leaves enough bits for 2 years.
const weightBits = 7

// ran records the run time of a measured task.
func (w *worker) ran(k *kind, d int64) {
	if n := w.ofBatch; n > 0 {
		w.home.of(k).run.Add(time.Duration(d/int64(n)), n)
		w.ofBatch = 0
	} else {
		w.home.of(k).run.Add(time.Duration(d), w.weight)
	}
	w.exact += d
	w.clock = w.pool.clock.Load()
	w.learn(d)
}

// learn updates the mean run time, faster upwards than downwards: after one long task, no
// task should wait behind the next.
func (w *worker) learn(d int64) {
	switch {
	case w.mean == 0:
		w.mean = max(d, 1)
	case d > w.mean:
		w.mean += (d - w.mean + 1) / 2
	default:
		w.mean -= (w.mean - d) / 8
	}
	if long := w.mean >= longTask; long != w.measuring {
		w.measuring = long
		w.pool.long.Store(long)
	}
}

// ticked is called when the pool's clock has advanced during tasks that were not measured.
// A run time of two ticks or more is known well enough to be recorded. The next task is
// measured.
func (w *worker) ticked(it item, clock int64) {
	now := w.pool.now()
	if d := now - w.exact; d >= 2*tick && w.exact > 0 {
		w.home.of(w.pool.kindOf(it)).run.Add(time.Duration(d), 1)
		w.learn(d)
	}
	w.exact, w.clock, w.measuring = now, clock, true
}

// batch returns how many items to take at once.
func (w *worker) batch() int {
	if w.mean <= 0 || w.mean > batchTime {
		return 1
	}
	return min(mostOwn, int(batchTime/w.mean))
}

// count counts a successful task of kind k. flush publishes the count, before the worker
// does anything that may take long.
func (w *worker) count(k *kind) {
	if w.counting != k {
		w.flush()
		w.counting = k
	}
	w.counted++
}

func (w *worker) flush() {
	if w.counted > 0 {
		w.home.of(w.counting).outcomes[bullpen.OK].Add(w.counted)
		w.counted = 0
	}
}
