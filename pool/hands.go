package pool

import "sync"

// The pool's workers are counted in one word, so that whoever brings a task
// learns with one load whether somebody has to be woken:
//
//	bits  0-19  workers that are there, lost ones not counted
//	bits 20-39  parked ones among them
//	bits 40-59  searching ones among them
//
// The rule that no wake-up is lost is that of the Go scheduler: who brings a
// task first makes it visible and then looks for searching workers; a worker
// that gives up searching first says so and then looks for tasks once more. So
// at most one of them may rely on the other.
const (
	oneWorker    = 1
	oneParked    = 1 << 20
	oneSearching = 1 << 40
	handsMask    = 1<<20 - 1

	// mostWorkers is the most that the word can count.
	mostWorkers = handsMask / 2
)

type hands uint64

func (h hands) size() int      { return int(h & handsMask) }
func (h hands) parked() int    { return int(h / oneParked & handsMask) }
func (h hands) searching() int { return int(h / oneSearching & handsMask) }
func (h hands) busy() int      { return h.size() - h.parked() - h.searching() }

func (p *Pool) handsNow() hands { return hands(p.hands.Load()) }

// discount takes back what was added to hands.
func (p *Pool) discount(delta uint64) { p.hands.Add(-delta) }

// most is how many workers there may be now: the maximum, and one more for each
// task that has handed work to this pool and may be waiting for it.
func (p *Pool) most() int { return int(p.max.Load()) + int(p.nesting.Load()) }

// call sees to it that somebody comes for a task that was just made visible. It
// returns at once when somebody is searching anyway.
func (p *Pool) call() {
	h := p.handsNow()
	if h.searching() > 0 || h.parked() == 0 && h.size() >= p.most() {
		return
	}
	p.callOne()
}

// callOne wakes a parked worker or starts one, unless somebody searches or all
// that may be there work.
func (p *Pool) callOne() {
	for {
		h := p.handsNow()
		switch {
		case h.searching() > 0:
			return
		case h.parked() > 0:
			if p.hands.CompareAndSwap(uint64(h), uint64(h)-oneParked+oneSearching) {
				p.bench.pop().wake <- wakeSearch
				return
			}
		case h.size() < p.most():
			if p.hands.CompareAndSwap(uint64(h), uint64(h)+oneWorker+oneSearching) {
				p.hire()
				return
			}
		default:
			return
		}
	}
}

// What a parked worker is told.
const (
	wakeGo     wakeUp = iota // it shall leave
	wakeSearch               // there may be work; it is counted as searching
	wakeRun                  // its first item is there, started
)

type wakeUp uint8

// hand gives an item straight to a parked worker, or to one that is started for
// it, when nothing waits. So a pool with little to do does not go the way through
// its queue. With force it does so although something waits, for which somebody is
// on the way.
func (p *Pool) hand(it item, force bool) bool {
	h := p.handsNow()
	for {
		if h.parked() == 0 && h.size() >= p.most() || p.ending() {
			return false
		}
		if !force && (h.searching() > 0 || p.work()) {
			return false
		}
		next := uint64(h) - oneParked
		if h.parked() == 0 {
			next = uint64(h) + oneWorker
		}
		if p.hands.CompareAndSwap(uint64(h), next) {
			break
		}
		h = p.handsNow()
	}
	if h.parked() == 0 {
		return p.hireFor(it)
	}
	return p.handParked(it)
}

// handParked gives an item to a worker that was counted off the parked ones; false
// when Close has given that one up meanwhile.
func (p *Pool) handParked(it item) bool {
	p.bench.mu.Lock()
	w := p.bench.take()
	if w.flags.Load()&flagForsaken != 0 {
		p.bench.mu.Unlock()
		p.discount(oneWorker)
		w.wake <- wakeGo
		return false
	}
	w.receive(it) // with the lock held, as who gives up the worker reads its items so
	p.bench.mu.Unlock()
	w.wake <- wakeRun
	return true
}

// receive puts one item into the hands of a worker that was parked, started.
func (w *worker) receive(it item) {
	w.handed++
	w.items[0], w.stamps[0] = it, 0
	switch {
	case w.rare:
		w.stamps[0] = stampOf(w.pool.now(), 1)
	case w.handed%handSample == 0:
		w.stamps[0] = stampOf(w.pool.now(), handSample)
	}
	if w.own.Load() != pack(1, 1) { // as its last one has left it
		w.own.Store(pack(1, 1))
	}
}

// handSample is of how many items that are handed straight to a worker one is
// measured, unless they are rare.
const handSample = 32

// bench is where parked workers sit, the last to come in front: it is warm, and
// those at the back go cold and are let go. A worker sits down before it is
// counted as parked, and whoever has counted one off takes one.
type bench struct {
	mu    sync.Mutex
	seats []*worker // guarded by mu
}

func (b *bench) push(w *worker) {
	b.mu.Lock()
	b.seats = append(b.seats, w)
	b.mu.Unlock()
}

func (b *bench) pop() *worker {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take()
}

// take is pop with mu held.
func (b *bench) take() *worker {
	n := len(b.seats) - 1
	w := b.seats[n]
	b.seats[n] = nil
	b.seats = b.seats[:n]
	w.seatedAt = 0
	return w
}

// coldest takes the worker that has sat longest.
func (b *bench) coldest() *worker {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.seats[0]
	copy(b.seats, b.seats[1:])
	b.seats[len(b.seats)-1] = nil
	b.seats = b.seats[:len(b.seats)-1]
	return w
}

// survey notes the time for those who have sat down since the last survey, and
// tells how long the one has sat who came first.
func (b *bench) survey(now int64) (longest int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.seats {
		if w.seatedAt == 0 {
			w.seatedAt = now
		}
	}
	if len(b.seats) == 0 {
		return 0
	}
	return now - b.seats[0].seatedAt
}

// park lets the worker wait until it is called, and says for what.
func (p *Pool) park(w *worker) wakeUp {
	p.bench.push(w)
	delta := uint64(oneParked)
	if w.searching {
		delta -= oneSearching // wraps round, as Add does
		w.searching = false
	}
	p.hands.Add(delta)
	if p.work() {
		p.callOne() // perhaps itself
	}
	p.madeRoom()
	if p.ending() {
		p.dismissAll()
	}
	why := <-w.wake
	w.searching = why == wakeSearch
	return why
}
