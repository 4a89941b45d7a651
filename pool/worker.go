package pool

import (
	"runtime"
	"sync/atomic"
	"time"
)

// mostOwn is how many items a worker takes from a queue at once, at most: what
// they wait behind each other is bounded by batchTime.
const (
	mostOwn   = 64
	batchTime = 16 * int64(time.Microsecond)
	// longTask is the run time from which every task is measured, because
	// reading the clock then costs under one part in a hundred.
	longTask = 5 * int64(time.Microsecond)
	// rareGap is the time between two measured tasks above which all are measured.
	rareGap = handSample * int64(time.Millisecond)
	// wakeWorth is the run time of the short tasks that make it worth waking
	// a blocked caller.
	wakeWorth = 20 * int64(time.Microsecond)
)

// worker is one goroutine that runs tasks. Fields without a note are used by
// that goroutine only.
type worker struct {
	pool  *Pool
	guest bool // it runs one task in a caller's goroutine
	id    int
	ctx   *workerContext // what tasks without a context of their own get
	home  stripe         // where its tasks are counted

	// own says which of items it has not started: from the first to behind the
	// last one, packed in one word. It starts one, or somebody takes all away, by
	// one step. The one that runs stays before the first. Items are written with
	// one lock of a queue held, or that of the bench while it is parked, and read by
	// others with all of them (freeze; forsake and wipe take the bench's too).
	own    atomic.Uint64
	items  [mostOwn]item
	stamps [mostOwn]int64 // when they were accepted, 0 where not measured; this goroutine's
	// lane is where the one item is from, nil for the pool's own queue. It is
	// written by this goroutine with the lane's lock held, which guards laneNests.
	lane      atomic.Pointer[Lane]
	laneNests bool // for its task the lane may run one more

	first     bool   // it begins with an item in hand
	inTask    bool   // a body runs
	weight    uint64 // for how many tasks the measured one speaks
	gen       uint64 // of the task that runs
	searching bool   // counted as such
	taken     int    // how many items it took from a queue the last time
	spun      bool   // has told a waiter: better leave the processor than look for more
	clock     int64  // the pool's clock when it last looked
	exact     int64  // the time at that moment
	measuring bool   // the next task is measured, whether or not its wait was
	rare      bool   // tasks come so seldom that each is measured; read by who hands it one
	stamped   int64  // the last time that a measured wait ended
	mean      int64  // of run times, in nanoseconds; 0 is unknown
	turn      uint64 // half of it says which shard is next
	counting  *kind  // whose tasks have ended well without being counted yet
	counted   uint64

	ofBatch  uint64                      // items of batches that have run as the running or an unmeasured item
	unsaid   uint64                      // tasks of the running one's group that have ended and are not counted there yet
	span     atomic.Pointer[spanContext] // of the group or batch whose task runs or ran last
	flags    atomic.Uint32               // flagNesting and the others below
	wake     chan wakeUp                 // room for one
	seatedAt int64                       // when a survey first saw it parked; guarded by bench.mu
	handed   uint64                      // items that were handed to it; of who took it off the bench
	context  atomic.Pointer[taskContext] // of the task that runs or ran last
	seen     uint64                      // own at the keeper's last look; the keeper's
}

const (
	// flagNesting: its task has handed work to this pool.
	flagNesting = 1 << iota
	// flagStuck: its task was abandoned, and the body runs on.
	flagStuck
	// flagLost: so its place was given to another.
	flagLost
	// flagForsaken: the pool has ended without waiting for it.
	flagForsaken
	// flagGone: it has left.
	flagGone
)

func pack(first, end int) uint64         { return uint64(first)<<32 | uint64(end) }
func unpack(own uint64) (first, end int) { return int(own >> 32), int(own & 0xFFFFFFFF) }
func (w *worker) held() (first, end int) { return unpack(w.own.Load()) }

// main is the worker's goroutine. hire starts it; it ends when the worker is not
// needed, and the pool's ending waits for it.
func (w *worker) main() {
	for w.shift() {
	}
	w.leave()
}

// shift runs tasks until the worker shall go. A task that leaves by a panic ends
// the shift, and the next one begins; so one recover serves many tasks.
func (w *worker) shift() (again bool) {
	defer func() {
		if w.inTask {
			again = w.rescue(recover())
		}
	}()
	for {
		first, end := w.held()
		switch {
		case w.first:
			w.first = false
			w.step(0)
		case first == end:
			if !w.fetch() {
				return false
			}
			w.step(0)
		case w.own.CompareAndSwap(pack(first, end), pack(first+1, end)):
			w.step(first)
		}
		if w.flags.Load() != 0 && !w.unflag() {
			return false
		}
	}
}

// unflag looks what its flags ask after a task; false says that it has lost its
// place.
func (w *worker) unflag() bool {
	flags := w.flags.Swap(0)
	w.uncount(flags)
	if flags&(flagLost|flagForsaken) != 0 {
		w.relieve()
		w.gone()
		return false
	}
	return true
}

// nests says that the worker's task has handed work to its own pool and may wait
// for it: until it ends there may be one worker more. So nested work cannot hang.
func (w *worker) nests() {
	for {
		flags := w.flags.Load()
		if flags&(flagNesting|flagGone) != 0 {
			return
		}
		if w.flags.CompareAndSwap(flags, flags|flagNesting) {
			w.pool.nesting.Add(1)
			return
		}
	}
}

// gone takes the last flags of a worker that leaves.
func (w *worker) gone() { w.uncount(w.flags.Swap(flagGone)) }

// uncount takes back what the flags have counted.
func (w *worker) uncount(flags uint32) {
	if flags&flagNesting != 0 {
		w.pool.nesting.Add(-1)
	}
	if flags&flagStuck != 0 {
		w.pool.stuck.Add(-1)
	}
}

// step runs one of its own items.
func (w *worker) step(i int) {
	it := w.items[i]
	if w.stamps[i] != 0 || w.measuring || w.lane.Load() != nil {
		w.measured(it, w.stamps[i])
		return
	}
	w.inTask = true
	it.run(w)
	w.inTask = false
	if clock := w.pool.clock.Load(); clock != w.clock {
		w.ticked(it, clock)
	}
}

func (w *worker) leaveLane() {
	if l := w.lane.Load(); l != nil {
		l.release(w)
	}
}

// fetch gets the next items and starts the first of them, which it waits for. It
// returns false when the worker shall go.
func (w *worker) fetch() bool {
	p := w.pool
	w.flush()
	for {
		if p.surplus(w) {
			return false
		}
		if w.find() {
			return true
		}
		if w.search() {
			return true
		}
		if p.quits(w) {
			return false
		}
		why := p.park(w)
		w.awoke()
		switch why {
		case wakeGo:
			return false
		case wakeRun:
			return true
		case wakeSearch:
		}
	}
}

// awoke forgets what it knew of the time. Where the keeper ticks the time is known
// to a tick.
func (w *worker) awoke() {
	w.exact, w.clock = 0, w.pool.clock.Load()
	if w.pool.keeper.awake.Load() {
		w.exact = w.clock
	}
}

// find looks for work in every place once, lanes and the pool's own queue by
// turns.
func (w *worker) find() bool {
	p := w.pool
	w.turn++
	if w.turn&1 == 0 && p.ready.n.Load() > 0 && p.ready.take(w) {
		return w.found(true)
	}
	for i := range p.shards {
		q := p.shards[(w.turn>>1+uint64(i))&p.shardMask]
		if !q.work() {
			continue
		}
		if k, more := q.take(w, w.batch()); k > 0 {
			w.taken = k
			return w.found(more)
		}
	}
	if p.ready.n.Load() > 0 && p.ready.take(w) {
		return w.found(true)
	}
	return false
}

// found ends the search. The last one to search calls another one when there is
// more: those who brought tasks meanwhile have relied on it.
func (w *worker) found(more bool) bool {
	if w.searching {
		w.searching = false
		if hands(w.pool.hands.Add(^uint64(oneSearching-1))).searching() == 0 && (more || w.pool.work()) {
			w.pool.callOne()
		}
	}
	return true
}

// search looks for work for a few microseconds more before the worker parks: to
// be woken costs the one who brings a task as much as dozens of short tasks. One
// worker at a time does so, and only in a stream of tasks: after a lone one the
// goroutine that waits for it needs the processor.
func (w *worker) search() bool {
	p := w.pool
	stream := w.taken >= streaming || p.config.Spin && !w.spun
	w.taken, w.spun = 0, false
	if !stream || p.procs == 1 || p.ending() {
		return false
	}
	if !w.searching {
		if p.handsNow().searching() > 0 {
			return false
		}
		w.searching = true
		p.hands.Add(oneSearching)
	}
	rounds := spinRounds
	if p.config.Spin {
		rounds = spinWait
	}
	for i := range rounds {
		if p.work() && w.find() {
			return true
		}
		if i%yieldEvery == yieldEvery-1 {
			runtime.Gosched() // the caller may be on this processor
		}
		pause()
	}
	return false
}

// announce counts the worker as searching before the one who waits for its task knows
// the outcome: so that the next task of a spinning caller is left to it, and
// wakes nobody else.
func (w *worker) announce() {
	if first, end := w.held(); first != end || w.guest || w.searching || w.pool.handsNow().searching() > 0 {
		return
	}
	w.searching = true
	w.pool.hands.Add(oneSearching)
}

// streaming is how many items a worker takes at once in a stream of tasks.
const streaming = 4

// spinRounds times pause is how long a worker looks for more work.
const spinRounds = 400

// pause takes about ten nanoseconds.
//
//go:noinline
func pause() {
	for i := range 64 {
		_ = i
	}
}
