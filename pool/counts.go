package pool

import "sync"

// The pool counts its workers in one word, so that a caller that queues a task sees with
// one load whether a worker must be woken:
//
//	bits  0-19  all workers, except replaced ones
//	bits 20-39  parked workers among them
//	bits 40-59  searching workers among them
//
// No wake-up is lost, by the rule of the Go scheduler. A caller makes its task
// visible first and then looks for searching workers. A worker that stops searching
// decrements the count first and then looks for tasks once more. So at least one of them
// notices the other.
const (
	oneWorker    = 1
	oneParked    = 1 << 20
	oneSearching = 1 << 40
	countMask    = 1<<20 - 1

	// mostWorkers is the maximum number of workers that the word can count.
	mostWorkers = countMask / 2
)

type workerCounts uint64

func (h workerCounts) size() int      { return int(h & countMask) }
func (h workerCounts) parked() int    { return int(h / oneParked & countMask) }
func (h workerCounts) searching() int { return int(h / oneSearching & countMask) }
func (h workerCounts) busy() int      { return h.size() - h.parked() - h.searching() }

func (p *Pool) counts() workerCounts { return workerCounts(p.workerCounts.Load()) }

// discount subtracts what was added to the counts.
func (p *Pool) discount(delta uint64) { p.workerCounts.Add(-delta) }

// most returns the maximum number of workers now: Max, and one more for each task that has
// submitted to this pool and may wait for it.
func (p *Pool) most() int { return int(p.max.Load()) + int(p.nesting.Load()) }

// call makes sure that a worker comes for a task that was just made visible. It returns
// immediately if a worker is searching.
func (p *Pool) call() {
	h := p.counts()
	if h.searching() > 0 || h.parked() == 0 && h.size() >= p.most() {
		return
	}
	p.callOne()
}

// callOne wakes or starts a worker, unless one is searching or all are busy.
func (p *Pool) callOne() {
	for {
		h := p.counts()
		switch {
		case h.searching() > 0:
			return
		case h.parked() > 0:
			if p.workerCounts.CompareAndSwap(uint64(h), uint64(h)-oneParked+oneSearching) {
				p.bench.pop().wake <- wakeSearch
				return
			}
		case h.size() < p.most():
			if p.workerCounts.CompareAndSwap(uint64(h), uint64(h)+oneWorker+oneSearching) {
				p.hire()
				return
			}
		default:
			return
		}
	}
}

// Reasons for waking a parked worker.
const (
	wakeGo     wakeUp = iota // it must exit
	wakeSearch               // there may be work; it counts as searching
	wakeRun                  // its first item is there, and started
)

type wakeUp uint8

// hand gives an item directly to a parked worker, or to one started for it, if no items
// wait. So a pool with little load bypasses its queue. With force it does so even if items
// wait; other workers are on their way for those.
func (p *Pool) hand(it item, force bool) bool {
	h := p.counts()
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
		if p.workerCounts.CompareAndSwap(uint64(h), next) {
			break
		}
		h = p.counts()
	}
	if h.parked() == 0 {
		return p.hireFor(it)
	}
	return p.handParked(it)
}

// handParked gives an item to a worker that is no longer counted as parked. It returns
// false if Close has abandoned that worker in the meantime.
func (p *Pool) handParked(it item) bool {
	p.bench.mu.Lock()
	w := p.bench.take()
	if w.flags.Load()&flagForsaken != 0 {
		p.bench.mu.Unlock()
		p.discount(oneWorker)
		w.wake <- wakeGo
		return false
	}
	w.receive(it) // under the lock, because forsake reads the items
	p.bench.mu.Unlock()
	w.wake <- wakeRun
	return true
}

// receive gives one item, as started, to a worker that was parked.
func (w *worker) receive(it item) {
	w.handed++
	w.items[0], w.stamps[0] = it, 0
	switch {
	case w.rare:
		w.stamps[0] = stampOf(w.pool.now(), 1)
	case w.handed%handSample == 0:
		w.stamps[0] = stampOf(w.pool.now(), handSample)
	}
	if w.own.Load() != pack(1, 1) { // usually already so after its last item
		w.own.Store(pack(1, 1))
	}
}

// handSample is the number of items handed directly to a worker of which one is measured,
// unless they are rare.
const handSample = 32

// bench is the stack of parked workers. The most recently parked one, whose caches are
// warm, is woken first; the others at the bottom expire. A worker pushes itself before it
// is counted as parked, and the goroutine that discounts a parked one pops it.
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

// coldest takes the worker that has been parked longest.
func (b *bench) coldest() *worker {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.seats[0]
	copy(b.seats, b.seats[1:])
	b.seats[len(b.seats)-1] = nil
	b.seats = b.seats[:len(b.seats)-1]
	return w
}

// survey sets the time for workers parked since the last survey, and returns how long the
// longest-parked one has been parked.
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

// park waits until the worker is woken, and returns the reason.
func (p *Pool) park(w *worker) wakeUp {
	p.bench.push(w)
	delta := uint64(oneParked)
	if w.searching {
		delta -= oneSearching // wraps around, as Add does
		w.searching = false
	}
	p.workerCounts.Add(delta)
	if p.work() {
		p.callOne() // perhaps this worker
	}
	p.madeRoom()
	if p.ending() {
		p.dismissAll()
	}
	why := <-w.wake
	w.searching = why == wakeSearch
	return why
}
