package pool

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
)

// tick is the interval of the keeper's checks while there is work, in nanoseconds; late is
// for how many idle ticks it continues.
const (
	tick = int64(time.Millisecond)
	late = 20
)

// keeper checks the pool every millisecond while there is something to supervise: tasks
// with a timeout or a context that can end, blocked callers, or short tasks that a worker
// has taken in advance. Otherwise it checks eight times per idle timeout for workers to
// retire, and not at all if there are no workers.
type keeper struct {
	pool  *Pool
	awake atomic.Bool // it ticks every millisecond

	pausing sync.Mutex // held while setting the timer; for goroutines that may not hold mu

	mu    sync.Mutex  // held during a tick; guards the fields below
	timer *time.Timer // runs tick
	calm  int         // ticks with nothing to supervise
	ended bool
	stall stall
	seats []*worker // scratch
	alive int64     // when Min last kept workers alive
}

func (k *keeper) init(p *Pool) {
	k.pool = p
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = time.AfterFunc(time.Hour, k.tick) // one goroutine per tick; end waits for it
	k.timer.Stop()
}

// wakeKeeper makes the keeper tick every millisecond.
func (p *Pool) wakeKeeper() {
	if !p.keeper.awake.Load() {
		p.keeper.wake()
	}
}

func (k *keeper) wake() {
	if k.awake.CompareAndSwap(false, true) {
		k.pausing.Lock()
		k.timer.Reset(time.Duration(tick))
		k.pausing.Unlock()
	}
}

// end stops the keeper for good.
func (k *keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.timer.Stop()
}

func (k *keeper) tick() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return
	}
	p := k.pool
	k.awake.Store(true)
	now := p.now()
	p.clock.Store(now)
	busy, due := k.watch(now)
	if p.counters.blocked.Load() > 0 {
		for _, g := range p.admissions() {
			g.admit(1) // regardless of slack
		}
	}
	if again := k.stall.look(p, now); again > 0 && (due == 0 || again < due) {
		due = again
	}
	k.retire(now)
	k.calm++
	if busy {
		k.calm = 0
	}
	if k.calm <= late {
		k.timer.Reset(time.Duration(tick))
		return
	}
	k.rest(due)
}

// rest schedules the next tick for when the next task is due or workers may have been idle
// too long, or never. Work that began before awake was cleared has seen the keeper awake,
// so rest checks once more.
func (k *keeper) rest(due int64) {
	p := k.pool
	p.wipe()
	k.calm = 0
	k.awake.Store(false)
	busy, again := k.watch(p.now())
	if busy || again > 0 && (due == 0 || again < due) {
		k.wake()
		return
	}
	pace := time.Duration(0)
	if p.counts().size() > 0 {
		pace = max(p.config.Idle/8, time.Duration(tick))
	}
	if due > 0 {
		until := max(time.Duration(due-p.now()), time.Duration(tick))
		if pace == 0 || until < pace {
			pace = until
		}
	}
	// A stir from now on sets the timer itself, and must not be overruled with a later
	// time.
	if k.pausing.Lock(); !k.awake.Load() && pace > 0 {
		k.timer.Reset(pace)
	}
	k.pausing.Unlock()
}

// retire lets workers exit that have been idle too long, the coldest first.
func (k *keeper) retire(now int64) {
	p := k.pool
	for {
		sat := p.bench.survey(now)
		h := p.counts()
		if h.parked() == 0 || sat < int64(p.config.Idle) {
			return
		}
		if int64(h.size()) <= p.min.Load() {
			if now-k.alive >= int64(p.config.Idle) {
				k.alive = now
				p.journal.emit(Event{Kind: KeptAlive, Count: h.size()})
			}
			return
		}
		if p.workerCounts.CompareAndSwap(uint64(h), uint64(h)-oneParked-oneWorker) {
			p.bench.coldest().wake <- wakeGo
		}
	}
}

// watch checks each worker: whether its task has overrun, and whether it holds short tasks
// behind one that turned out long. It reports whether the next tick must not be late, and
// when the next task is due, 0 for never.
func (k *keeper) watch(now int64) (busy bool, due int64) {
	p := k.pool
	k.seats = p.seats(k.seats[:0])
	for _, w := range k.seats {
		if c := w.context.Load(); c != nil {
			l := c.watch(now)
			busy = busy || l.fresh
			if l.why != nil {
				p.overrun(w, c, l.why)
			} else if l.due > 0 && (due == 0 || l.due < due) {
				due = l.due
			}
		}
		own := w.own.Load()
		switch first, end := unpack(own); {
		case first == end:
			w.seen = 0
			continue
		case w.seen == own && p.most() > 1:
			w.relieve()
		default:
			w.seen = own
		}
		busy = true
	}
	clear(k.seats)
	return busy, due
}

// seats appends the pool's workers, except replaced ones.
func (p *Pool) seats(to []*worker) []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.workers {
		to = append(to, w)
	}
	return to
}

// overrun answers a task that has overrun, and replaces its worker unless too many bodies
// are stuck.
func (p *Pool) overrun(w *worker, c *taskContext, why error) {
	p.freeze() // keeps others from abandoning it now
	if !c.running() {
		p.thaw()
		return
	}
	c.extra().verdict = why // read once the next step succeeds
	if !c.head.abandon(c.gen) {
		p.thaw()
		return
	}
	replaced := p.stuck.Add(1) <= int64(p.config.Stuck)
	if replaced {
		w.flags.Or(flagStuck | flagLost)
		p.workerCounts.Add(^uint64(oneWorker - 1))
	} else {
		w.flags.Or(flagStuck)
	}
	p.thaw()
	w.home.outcome(c.named(), why)
	p.counters.overruns.Add(1)
	w.emit(Event{Kind: Overran, Task: c.named().name, Text: why.Error()})
	c.cancel(endOf(why), why)
	c.head.wakeWaiters()
	if replaced {
		w.relieve()
		p.call()
		p.madeRoom()
	}
}

// endOf returns the error of a context that ended with err.
func endOf(err error) error {
	if o, _ := bullpen.OutcomeOf(err); o == bullpen.Timeout {
		return context.DeadlineExceeded
	}
	return context.Canceled
}

// freeze keeps all workers from taking items, so that the items they hold can be read. It
// takes all locks of the pool's queue.
func (p *Pool) freeze() {
	for _, q := range p.shards {
		q.out.mu.Lock()
		q.in.mu.Lock()
	}
}

func (p *Pool) thaw() {
	for _, q := range p.shards {
		q.in.mu.Unlock()
		q.out.mu.Unlock()
	}
}

// surrender takes away the items that the worker has not started.
func (w *worker) surrender() []item {
	if first, end := w.held(); first == end {
		return nil
	}
	w.pool.freeze()
	defer w.pool.thaw()
	for {
		own := w.own.Load()
		first, end := unpack(own)
		if first == end {
			return nil
		}
		if w.own.CompareAndSwap(own, pack(first, first)) {
			taken := slices.Clone(w.items[first:end])
			clear(w.items[first:end])
			return taken
		}
	}
}

// relieve moves the items that a worker has not started to the head of the queue.
func (w *worker) relieve() {
	p := w.pool
	p.guests.Add(1) // keeps the pool from ending while the items are in transit
	defer p.farewell()
	taken := w.surrender()
	if len(taken) == 0 {
		return
	}
	if err := p.shards[0].giveBack(taken); err != nil {
		for _, it := range taken {
			p.failed(it, err)
		}
		return
	}
	p.call()
}

// wipe drops the references of idle workers to items that they have run.
func (p *Pool) wipe() {
	p.bench.mu.Lock()
	defer p.bench.mu.Unlock()
	p.freeze()
	defer p.thaw()
	for _, w := range p.bench.seats {
		if first, end := w.held(); first == end {
			clear(w.items[:])
			w.own.Store(0)
			w.context.Store(nil)
		}
	}
}
