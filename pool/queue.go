package pool

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Priority orders the tasks that wait in one queue.
type Priority uint8

// The priorities. Higher ones go first, with exceptions: of eight turns, one looks at the
// lowest priority first and one at the middle one, so that no task starves.
const (
	// Normal is the default priority.
	Normal Priority = iota
	// High goes before Normal.
	High
	// Low goes after Normal.
	Low
	priorities = iota
)

// turns holds the order in which each of eight turns looks at the priorities. In each turn,
// a worker takes one batch of items.
var turns = [8][priorities]Priority{
	{High, Normal, Low}, {High, Normal, Low}, {High, Normal, Low}, {Normal, High, Low},
	{High, Normal, Low}, {High, Normal, Low}, {High, Normal, Low}, {Low, Normal, High},
}

// samplePeriod is the number of short tasks of which one is measured.
const samplePeriod = 64

// queue is a shard of the pool's queue, or a lane's queue. It has two sides with a lock
// each, one for callers and one for workers. They meet only once for hundreds of tasks,
// when the workers' side is empty and takes over everything on the callers' side. Lock
// order: admission, workers' side, callers' side.
type queue struct {
	pool      *Pool
	lane      *Lane      // nil in the pool's own queue
	admission *admission // bounds how many items may wait here
	_         [64]byte

	in struct {
		// used has a bit for each priority that has items. It is written with mu held and
		// read without.
		used   atomic.Uint32
		mu     sync.Mutex
		room   int  // places that callers may fill without asking the admission. mu guards the fields below
		sample int  // pushes until the next measured one
		shut   bool // room stays 0 from now on
		levels [priorities]deque
	}
	_ [64]byte

	out struct {
		used    atomic.Uint32 // like in.used
		mu      sync.Mutex
		turn    uint8 // mu guards the fields below
		emptied error // the error for items that are given back; nil while the queue may hold items
		levels  [priorities]deque
	}
	_ [64]byte
}

// shard picks a shard by the address of the calling goroutine's stack. So goroutines spread
// over the shards, but each keeps to one, and its tasks stay in order.
func (p *Pool) shard() *queue {
	if p.shardMask == 0 {
		return p.shards[0]
	}
	var here byte
	at := uint64(uintptr(unsafe.Pointer(&here))) >> 11 // the least stack is 2 KiB
	return p.shards[(at*0x9E3779B97F4A7C15)>>32&p.shardMask]
}

// push adds an item on the callers' side. in.mu is held, and in.room is positive.
func (q *queue) push(pr Priority, it item) {
	in := &q.in
	stamp := int64(0)
	in.sample--
	if in.sample <= 0 || q.pool.long.Load() {
		in.sample = samplePeriod
		stamp = q.pool.now()
	}
	in.levels[pr].push(it, stamp)
	if used := in.used.Load(); used&(1<<pr) == 0 {
		in.used.Store(used | 1<<pr)
	}
	in.room--
}

// work reports whether items wait here. It takes no lock.
func (q *queue) work() bool { return q.in.used.Load()|q.out.used.Load() != 0 }

// take moves up to most items to the worker, which has none, and starts the first. It
// returns their number, and whether there are more.
func (q *queue) take(w *worker, most int) (k int, more bool) {
	if q.out.used.Load() == 0 {
		if k, more = q.takeFresh(w, most); k > 0 {
			return k, more
		}
	}
	q.out.mu.Lock()
	in, out := q.in.used.Load(), q.out.used.Load()
	if in != 0 && (out == 0 || in|out != 1<<Normal) {
		q.takeOver()
	}
	if q.out.used.Load() != 0 {
		if k = q.fill(w, most); k > 0 {
			w.own.Store(pack(1, k))
		}
	}
	more = q.work()
	q.out.mu.Unlock()
	if k > 0 {
		if k > 1 {
			q.pool.wakeKeeper() // the keeper may have to take them back
		}
		q.admission.free(k)
		if q.admission.blocked.Load() > 0 {
			q.admission.admit(q.admission.slack(w))
		}
	}
	return k, more
}

// takeFresh takes a few items directly from the callers' side, if these are all and have
// Normal priority. This is the fast path for a pool with little load.
func (q *queue) takeFresh(w *worker, most int) (k int, more bool) {
	q.in.mu.Lock()
	defer q.in.mu.Unlock()
	d := &q.in.levels[Normal]
	if q.in.used.Load() != 1<<Normal || d.n > few || q.admission.dead.Load() > 0 || q.in.shut || q.admission.blocked.Load() > 0 {
		return 0, false
	}
	k = d.popMany(w.items[:min(most, d.n/2+1)], &w.stamps, q.weight())
	if d.n == 0 {
		q.in.used.Store(0)
	}
	q.in.room += k
	if k > 1 {
		q.pool.wakeKeeper()
	}
	w.own.Store(pack(1, k))
	return k, d.n > 0
}

// few is up to how many items takeFresh takes without moving them to the workers' side.
const few = 8

// takeOver moves all items from the callers' side to the workers' side. out.mu is held.
func (q *queue) takeOver() {
	q.in.mu.Lock()
	used := q.in.used.Load()
	for pr := range q.in.levels {
		if used&(1<<pr) != 0 {
			q.out.levels[pr].join(&q.in.levels[pr])
		}
	}
	q.in.used.Store(0)
	q.in.mu.Unlock()
	q.out.used.Store(q.out.used.Load() | used)
}

// pop takes the next item by priority, live or stale. out.mu is held, and the workers' side
// is not empty.
func (q *queue) pop(order *[priorities]Priority) queued {
	used := q.out.used.Load()
	pr := Normal
	if used != 1<<Normal {
		for _, pr = range order {
			if used&(1<<pr) != 0 {
				break
			}
		}
	}
	s := q.out.levels[pr].pop()
	if q.out.levels[pr].n == 0 {
		q.out.used.Store(used &^ (1 << pr))
	}
	return s
}

// fill is take if the workers' side has items. out.mu is held.
func (q *queue) fill(w *worker, most int) int {
	if q.out.used.Load() == 1<<Normal && q.admission.dead.Load() <= 0 {
		d := &q.out.levels[Normal]
		k := d.popMany(w.items[:min(most, d.n/2+1)], &w.stamps, q.weight()) // leaves half to other workers
		if d.n == 0 {
			q.out.used.Store(0)
		}
		return k
	}
	q.out.turn++
	order := &turns[q.out.turn%8]
	k := 0
	for k < most && q.out.used.Load() != 0 {
		s := q.pop(order)
		if s.item.stale() {
			q.bury(s.item)
			continue
		}
		w.items[k], w.stamps[k] = s.item, 0
		if s.stamp != 0 {
			w.stamps[k] = stampOf(s.stamp, q.weight())
		}
		k++
	}
	return k
}

// weight returns how many items each measured item here stands for.
func (q *queue) weight() uint64 {
	if q.pool.long.Load() {
		return 1
	}
	return samplePeriod
}

// bury releases a stale item that was taken from the queue.
func (q *queue) bury(it item) {
	q.admission.dead.Add(-1)
	it.fail(nil)
}

// forget frees the place of an item that ended while it waited here.
func (q *queue) forget() {
	q.admission.free(1)
	if dead := q.admission.dead.Add(1); dead > 64 && dead%64 == 0 {
		q.compact()
	}
	if q.admission.blocked.Load() > 0 {
		q.admission.admit(1)
	}
	q.pool.lessWaits() // there may be no worker that would notice
}

// unforget undoes forget for an item that ended after a worker had taken it: taking it had
// freed its place.
func (q *queue) unforget() {
	q.admission.dead.Add(-1)
	q.admission.free(-1)
}

// compact removes the stale items if they are the majority, so that canceled tasks do not
// fill the memory while all workers are busy.
func (q *queue) compact() {
	q.out.mu.Lock()
	defer q.out.mu.Unlock()
	if q.in.used.Load() != 0 {
		q.takeOver()
	}
	n := 0
	for pr := range q.out.levels {
		n += q.out.levels[pr].n
	}
	if q.admission.dead.Load() <= int64(n/2) {
		return
	}
	for pr := range q.out.levels {
		if d := &q.out.levels[pr]; d.n > 0 {
			q.admission.dead.Add(int64(-d.compact()))
			if d.n == 0 {
				q.out.used.Store(q.out.used.Load() &^ (1 << pr))
			}
		}
	}
}

// oldest takes the item that has waited longest among those of the lowest priority. out.mu
// is held.
func (q *queue) oldest() (item, bool) {
	if q.in.used.Load() != 0 {
		q.takeOver()
	}
	for q.out.used.Load() != 0 {
		s := q.pop(&turns[7])
		if s.item.stale() {
			q.bury(s.item)
			continue
		}
		return s.item, true
	}
	return nil, false
}

// giveBack puts items that were taken but not started back at the head of the queue. If the
// waiting items have been failed in the meantime, it returns the error they were failed
// with.
func (q *queue) giveBack(items []item) error {
	q.out.mu.Lock()
	defer q.out.mu.Unlock()
	if q.out.emptied != nil {
		return q.out.emptied
	}
	for _, it := range slices.Backward(items) {
		q.out.levels[High].unpop(it)
	}
	q.out.used.Store(q.out.used.Load() | 1<<High)
	q.admission.free(-len(items))
	return nil
}

// close stops callers from adding items.
func (q *queue) close() {
	q.in.mu.Lock()
	defer q.in.mu.Unlock()
	q.in.shut, q.in.room = true, 0
}

// empty removes and returns all waiting items. From then on, giveBack returns err.
func (q *queue) empty(err error) (waiting []item) {
	q.out.mu.Lock()
	defer q.out.mu.Unlock()
	q.out.emptied = err
	for {
		it, ok := q.oldest()
		if !ok {
			return waiting
		}
		waiting = append(waiting, it)
	}
}
