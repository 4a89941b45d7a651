package pool

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Priority orders the tasks that wait in one queue.
type Priority uint8

// The priorities. Higher ones go first, but not always: of eight turns one
// looks at the lowest first and one at the middle first, so that none starves.
const (
	// Normal is the priority of tasks that say nothing.
	Normal Priority = iota
	// High goes before Normal.
	High
	// Low goes after Normal.
	Low
	priorities = iota
)

// turns has, for each of eight turns, the order in which priorities are looked
// at. A turn is the taking of a batch.
var turns = [8][priorities]Priority{
	{High, Normal, Low}, {High, Normal, Low}, {High, Normal, Low}, {Normal, High, Low},
	{High, Normal, Low}, {High, Normal, Low}, {High, Normal, Low}, {Low, Normal, High},
}

// samplePeriod is of how many short tasks one is measured.
const samplePeriod = 64

// queue is a place to wait: a shard of the pool's queue, or a lane's. It has two
// sides with a lock each, so that those who bring tasks and those who take them
// meet once for hundreds of tasks, when the workers' side is empty and takes over
// all that lies on the other. Lock order: gate, workers' side, callers' side.
type queue struct {
	pool *Pool
	lane *Lane // nil in the pool's own queue
	gate *gate // how much may lie here
	_    [64]byte

	in struct {
		// used has the bit of each priority that has items. It is written with mu
		// held and read without.
		used   atomic.Uint32
		mu     sync.Mutex
		room   int  // places that callers may fill without asking the gate. mu guards what follows
		sample int  // pushes until the next one that is measured
		shut   bool // room is 0 for ever
		levels [priorities]deque
	}
	_ [64]byte

	out struct {
		used    atomic.Uint32 // as of in
		mu      sync.Mutex
		turn    uint8 // mu guards what follows
		emptied error // why what comes back is failed
		levels  [priorities]deque
	}
	_ [64]byte
}

// shard picks the shard of the calling goroutine: where its stack lies. So a
// goroutine keeps to one shard, its tasks stay in order, and goroutines spread.
func (p *Pool) shard() *queue {
	if p.shardMask == 0 {
		return p.shards[0]
	}
	var here byte
	at := uint64(uintptr(unsafe.Pointer(&here))) >> 11 // the least stack is 2 KiB
	return p.shards[(at*0x9E3779B97F4A7C15)>>32&p.shardMask]
}

// push adds an item on the callers' side. in.mu is held, and there is room.
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

// work reports whether something lies here, without a lock.
func (q *queue) work() bool { return q.in.used.Load()|q.out.used.Load() != 0 }

// take gives the worker, who has none, up to most items and starts the first. It
// returns how many, and whether there is more.
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
			q.pool.stir() // it may have to take them back
		}
		q.gate.free(k)
		if q.gate.blocked.Load() > 0 {
			q.gate.admit(q.gate.slack(w))
		}
	}
	return k, more
}

// takeFresh takes a few items straight from the callers' side, when there are no
// more and none of special priority: the short way for a pool with little to do.
func (q *queue) takeFresh(w *worker, most int) (k int, more bool) {
	q.in.mu.Lock()
	defer q.in.mu.Unlock()
	d := &q.in.levels[Normal]
	if q.in.used.Load() != 1<<Normal || d.n > few || q.gate.dead.Load() > 0 || q.in.shut || q.gate.blocked.Load() > 0 {
		return 0, false
	}
	k = d.popMany(w.items[:min(most, d.n/2+1)], &w.stamps, q.weight())
	if d.n == 0 {
		q.in.used.Store(0)
	}
	q.in.room += k
	if k > 1 {
		q.pool.stir()
	}
	w.own.Store(pack(1, k))
	return k, d.n > 0
}

// few is how many items are taken without moving them to the workers' side.
const few = 8

// takeOver moves all that callers have brought to the workers' side. out.mu is
// held.
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

// pop takes the next item by priority. out.mu is held; there is one, live or
// stale.
func (q *queue) pop(order *[priorities]Priority) slot {
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

// fill is take for a workers' side with items. out.mu is held.
func (q *queue) fill(w *worker, most int) int {
	if q.out.used.Load() == 1<<Normal && q.gate.dead.Load() <= 0 {
		d := &q.out.levels[Normal]
		k := d.popMany(w.items[:min(most, d.n/2+1)], &w.stamps, q.weight()) // half is left to the others
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

// weight is for how many items each stamp here speaks.
func (q *queue) weight() uint64 {
	if q.pool.long.Load() {
		return 1
	}
	return samplePeriod
}

// bury lets go of a stale item that was taken out.
func (q *queue) bury(it item) {
	q.gate.dead.Add(-1)
	it.fail(nil)
}

// forget gives back the place of an item that has ended while it waited here.
func (q *queue) forget() {
	q.gate.free(1)
	if dead := q.gate.dead.Add(1); dead > 64 && dead%64 == 0 {
		q.compact()
	}
	if q.gate.blocked.Load() > 0 {
		q.gate.admit(1)
	}
	q.pool.lessWaits() // there may be no worker who will find that out
}

// unforget takes back the forget of an item that a worker had in hand when it
// ended: its place was given back when the worker took it.
func (q *queue) unforget() {
	q.gate.dead.Add(-1)
	q.gate.free(-1)
}

// compact drops the stale items where they are the larger part, so that canceled
// tasks do not fill the memory while all workers are busy.
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
	if q.gate.dead.Load() <= int64(n/2) {
		return
	}
	for pr := range q.out.levels {
		if d := &q.out.levels[pr]; d.n > 0 {
			q.gate.dead.Add(int64(-d.compact()))
			if d.n == 0 {
				q.out.used.Store(q.out.used.Load() &^ (1 << pr))
			}
		}
	}
}

// oldest takes the item that has waited longest among those of the lowest
// priority. out.mu is held.
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

// giveBack puts items at the head of the queue that were taken and not started.
// When what waits has been failed meanwhile it returns with what error.
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
	q.gate.free(-len(items))
	return nil
}

// close lets nobody fill the queue any more.
func (q *queue) close() {
	q.in.mu.Lock()
	defer q.in.mu.Unlock()
	q.in.shut, q.in.room = true, 0
}

// empty takes out all that waits. From then on what is given back fails with err.
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
