package pool

import (
	"runtime"
	"sync/atomic"
	"time"
)

// mostOwn is the maximum number of items that a worker takes from a queue at once.
// batchTime bounds how long they wait behind each other.
const (
	mostOwn   = 64
	batchTime = 16 * int64(time.Microsecond)
	// longTask is the run time from which every task is measured, because reading the clock
	// then costs less than one percent.
	longTask = 5 * int64(time.Microsecond)
	// If the time between two measured tasks exceeds rareGap, all tasks are measured.
	rareGap = handSample * int64(time.Millisecond)
	// wakeWorth is the total run time of short tasks that justifies waking a blocked
	// caller.
	wakeWorth = 20 * int64(time.Microsecond)
)

// worker is a goroutine that runs tasks. Unless a comment says otherwise, only that goroutine
// uses the fields.
type worker struct {
	pool  *Pool
	guest bool // runs one task in a caller's goroutine
	id    int
	ctx   *workerContext // for tasks without their own context
	home  stripe         // where its tasks are counted

	// own holds the range of items that were not started, packed in one word: from the
	// first to behind the last. A single step starts one item or takes all away. The
	// running item is the one before the first. Items are written with one lock of a queue
	// held, or that of the bench while the worker is parked. Other goroutines read them
	// with all locks of the queue held (freeze; forsake and wipe also hold the bench's).
	own    atomic.Uint64
	items  [mostOwn]item
	stamps [mostOwn]int64 // when they were accepted, 0 if not measured; this goroutine's
	// lane is the lane of the current item, nil for the pool's own queue. It is written by
	// this goroutine with the lane's lock held, which also guards laneNests.
	lane      atomic.Pointer[Lane]
	laneNests bool // the lane may run one task more for its task

	first     bool   // starts with an item
	inTask    bool   // a body runs
	weight    uint64 // how many tasks the measured one stands for
	gen       uint64 // of the task that runs
	searching bool   // counts as searching
	taken     int    // how many items it last took from a queue
	spun      bool   // it has woken a waiter: better to yield the processor than to look for more
	clock     int64  // the pool's clock when it last looked
	exact     int64  // the time at that moment
	measuring bool   // the next task is measured, even if its wait was not
	rare      bool   // tasks are so rare that all are measured; read by the goroutine that hands it one
	stamped   int64  // when the last measured wait ended
	mean      int64  // mean run time, in nanoseconds; 0 if unknown
	turn      uint64 // turn/2 is the next shard
	counting  *kind  // kind of the successful tasks not counted yet
	counted   uint64

	ofBatch    uint64                      // items of batches run as part of the current or an unmeasured item
	unreported uint64                      // ended tasks of the current group that were not reported to it yet
	span       atomic.Pointer[spanContext] // of the group or batch whose task runs or ran last
	flags      atomic.Uint32               // flagNesting and the others below
	wake       chan wakeUp                 // has room for one
	seatedAt   int64                       // when a survey first saw it parked; guarded by bench.mu
	handed     uint64                      // items handed directly to it; used by the goroutine that unparks it
	context    atomic.Pointer[taskContext] // of the task that runs or ran last
	seen       uint64                      // own at the keeper's last check; used by the keeper
}

const (
	// flagNesting: the task has submitted to this pool.
	flagNesting = 1 << iota
	// flagStuck: the task was abandoned, and its body keeps running.
	flagStuck
	// flagLost: the worker was replaced because of that.
	flagLost
	// flagForsaken: the pool has ended without waiting for the worker.
	flagForsaken
	// flagGone: the worker has left.
	flagGone
)

func pack(first, end int) uint64         { return uint64(first)<<32 | uint64(end) }
func unpack(own uint64) (first, end int) { return int(own >> 32), int(own & 0xFFFFFFFF) }
func (w *worker) held() (first, end int) { return unpack(w.own.Load()) }

// main is the worker's goroutine. employ starts it. It ends when the worker is not needed,
// and the pool's shutdown waits for it.
func (w *worker) main() {
	for w.shift() {
	}
	w.leave()
}

// shift runs tasks until the worker must exit. A task that panics ends the shift, and the
// next shift begins; so one deferred recover serves many tasks.
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

// unflag acts on the flags after a task. It returns false if the worker was replaced.
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

// nests declares that the worker's task has submitted to its own pool and may wait for
// that. Until it ends, the pool may run one worker more, so nested work cannot deadlock.
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

// gone clears the flags of a worker that leaves.
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

// step runs one of the worker's items.
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

// fetch waits for the next items and starts the first of them. It returns false if the
// worker must exit.
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

// awoke resets what the worker knows about the time. While the keeper ticks, the time is
// known to within a tick.
func (w *worker) awoke() {
	w.exact, w.clock = 0, w.pool.clock.Load()
	if w.pool.keeper.awake.Load() {
		w.exact = w.clock
	}
}

// find looks for work once in every place, and alternates between lanes and the pool's own
// queue.
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

// found ends the search. The last searching worker calls another one if there is more work,
// because callers that queued tasks in the meantime have relied on it.
func (w *worker) found(more bool) bool {
	if w.searching {
		w.searching = false
		if workerCounts(w.pool.workerCounts.Add(^uint64(oneSearching-1))).searching() == 0 && (more || w.pool.work()) {
			w.pool.callOne()
		}
	}
	return true
}

// search looks for work for a few more microseconds before the worker parks, because waking
// a worker costs as much as dozens of short tasks. Only one worker at a time does so, and
// only in a stream of tasks: after a single task, the goroutine that waits for it needs the
// processor.
func (w *worker) search() bool {
	p := w.pool
	stream := w.taken >= streaming || p.config.Spin && !w.spun
	w.taken, w.spun = 0, false
	if !stream || p.procs == 1 || p.ending() {
		return false
	}
	if !w.searching {
		if p.counts().searching() > 0 {
			return false
		}
		w.searching = true
		p.workerCounts.Add(oneSearching)
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

// announce counts the worker as searching before the waiting caller learns the outcome. So
// the next task of a spinning caller goes to this worker and wakes no other one.
func (w *worker) announce() {
	if first, end := w.held(); first != end || w.guest || w.searching || w.pool.counts().searching() > 0 {
		return
	}
	w.searching = true
	w.pool.workerCounts.Add(oneSearching)
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
