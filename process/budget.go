package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
)

// DefaultNeed is the memory that a worker is expected to use if nothing was configured
// or measured, in bytes.
const DefaultNeed = 64 << 20

// leastTurn is the minimum time that a pool waits for room before busy workers of other
// pools have to leave after their current tasks.
const leastTurn = time.Second

// BudgetConfig bounds what the worker processes of several pools use together. A zero
// field bounds nothing.
type BudgetConfig struct {
	// Memory is the most memory of all workers together, in bytes. A worker counts with
	// Config.Need, or with its resident size if that is larger. In a pool without Need
	// or Limits.Memory, a worker counts with its resident size once that has been
	// measured. Shared pages count for each worker. The bound prevents starts; running
	// workers may grow beyond it, see Config.Limits and Recycle.Memory for bounds on
	// those.
	Memory int64
	// Workers is the most processes at a time. Leaving workers count until they have
	// ended.
	Workers int
	// Starts is the most processes started per second on average; up to max(4,
	// 2*GOMAXPROCS) may start at once.
	Starts float64
	// Logger receives a warning when the workers have grown above Memory and none can
	// give way, and a note about each busy worker that has to leave; nil means none.
	// Everything else is an event of the pool concerned.
	Logger *slog.Logger
}

// Budget is one bound of memory, processes and starts for all pools that name it in
// their Config. A pool that needs a worker for a task and finds no room waits, first
// come, first served. Meanwhile pools with idle workers let some of them leave, those
// that waste the most first, by size and idle time. The Min workers of a pool are
// promised to it and never leave for other pools. A pool whose workers are never idle
// must give way too, after their current tasks, to a pool that has waited for ten times
// its mean start time, and for at least a second.
//
// Spare workers wait until no pool needs the room for tasks, and no other worker leaves
// for them. With the protocol Exec a process counts while it runs.
//
// A Budget need not be closed. All methods are safe for concurrent use. A task that
// needs no start takes no lock of the budget.
type Budget struct {
	config BudgetConfig
	epoch  time.Time

	// mu is locked after Pool.mu of at most one pool, never before it.
	mu     sync.Mutex
	ledger ledger            // guarded by mu
	waited bullpen.Histogram // of starts that had to wait; guarded by mu
	over   bool              // more memory is used than is allowed; guarded by mu
	notes  *budgetNotes      // while a pool is here and there is a logger; guarded by mu
}

// NewBudget checks c and returns a new budget. It reports all faults of c at once.
func NewBudget(c BudgetConfig) (*Budget, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Memory < 0 {
		bad("Memory is %d: use a positive number of bytes, or 0 for no limit", c.Memory)
	}
	if c.Workers < 0 {
		bad("Workers is %d: use 1 or more processes, or 0 for no limit", c.Workers)
	}
	if c.Starts < 0 || math.IsNaN(c.Starts) || math.IsInf(c.Starts, 0) {
		bad("Starts is %g: use a positive rate, or 0 for no limit", c.Starts)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("process: the budget has faults:\n%w", errors.Join(errs...))
	}
	b := &Budget{config: c, epoch: time.Now()}
	burst := float64(max(4, 2*runtime.GOMAXPROCS(0)))
	b.ledger.workers, b.ledger.memory = c.Workers, c.Memory
	b.ledger.starts = tokens{rate: c.Starts, burst: burst, left: burst}
	return b, nil
}

// now returns the time since the budget's epoch in nanoseconds.
func (b *Budget) now() int64 { return int64(time.Since(b.epoch)) }

// BudgetStats is a snapshot of a Budget.
type BudgetStats struct {
	// Pools is the number of pools that use the budget and have not ended.
	Pools int
	// Workers is the number of processes, including those about to start and those
	// leaving. Promised is the number of further workers that are promised to pools by
	// their Min.
	Workers, Promised int
	// Memory is the bytes that Workers count with, PromisedMemory the bytes kept for
	// Promised.
	Memory, PromisedMemory int64
	// Waiting is the number of pools that need a worker but have no room, or must not
	// start one yet. Longest is how long the first of them has waited.
	Waiting int
	Longest time.Duration
	// Started counts the workers that got room. Reclaimed counts idle workers that left
	// for other pools, Pressed busy ones that had to leave after their current tasks.
	Started, Reclaimed, Pressed uint64
	// Wait is the time for which starts had to wait, of those that had to.
	Wait bullpen.Histogram
}

// Stats returns a snapshot. It takes about a microsecond for a hundred pools.
func (b *Budget) Stats() BudgetStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.ledger.usage()
	s := BudgetStats{
		Pools: len(b.ledger.accounts), Workers: u.workers, Promised: u.promised, Memory: u.bytes, PromisedMemory: u.promisedBytes,
		Waiting: len(b.ledger.waiting), Started: b.ledger.taken, Reclaimed: b.ledger.reclaimed, Pressed: b.ledger.hurried, Wait: b.waited,
	}
	if a := b.ledger.longest(); a != nil {
		s.Longest = time.Duration(b.now() - a.since)
	}
	return s
}

// join opens the account of a pool, or returns an error if the workers that it must
// have do not fit.
func (b *Budget) join(a *account) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ledger.admits(append(slices.Clone(b.ledger.accounts), a)) {
		return b.refusal(a, a.min)
	}
	b.ledger.accounts = append(b.ledger.accounts, a)
	if b.notes == nil && b.config.Logger != nil {
		b.notes = newBudgetNotes(b.config.Logger)
	}
	return nil
}

// refusal returns the error that minimum workers of a do not fit beside the other
// pools. mu is held.
func (b *Budget) refusal(a *account, minimum int) error {
	others := slices.DeleteFunc(slices.Clone(b.ledger.accounts), func(other *account) bool { return other == a })
	workers, bytes := demands(others)
	return fmt.Errorf("the pool %q does not fit in its Budget: it needs at least %d workers of %d bytes, the other "+
		"pools need %d workers and %d bytes, and the budget is %d workers and %d bytes (0: no "+
		"limit); use a smaller Min or Need, or a larger budget",
		a.name, max(minimum, 1), a.plan, workers, bytes, b.config.Workers, b.config.Memory)
}

// promise changes the number of workers promised to a, if they fit.
func (b *Budget) promise(a *account, minimum int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := a.min
	a.min = minimum
	if !b.ledger.admits(b.ledger.accounts) {
		a.min = before
		return b.refusal(a, minimum)
	}
	b.ledger.reclaim(b.now())
	b.ledger.advance()
	b.madeRoom()
	return nil
}

// madeRoom wakes the callers of Pool.Room in all pools. mu is held.
func (b *Budget) madeRoom() {
	for _, a := range b.ledger.accounts {
		a.room.Notify()
	}
}

// leave closes the account of a pool that has ended.
func (b *Budget) leave(a *account) {
	b.mu.Lock()
	b.ledger.leave(a, b.now())
	b.madeRoom()
	notes := b.notes
	if len(b.ledger.accounts) > 0 {
		notes = nil
	} else {
		b.notes = nil
	}
	b.mu.Unlock()
	if notes != nil {
		notes.close()
	}
}

// take requests room for one worker, see ledger.take.
func (b *Budget) take(a *account, why purpose, turn time.Duration) (ok bool, again int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.turn = int64(max(turn, leastTurn))
	now, since, waited := b.now(), a.since, a.waits != forNothing
	if ok, again = b.ledger.take(a, why, now); ok && waited {
		b.waited.Add(time.Duration(now - since))
	}
	return ok, again
}

// grab is take without waiting.
func (b *Budget) grab(a *account) (ok bool, again int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.grab(a, b.now())
}

// withdraw ends the wait of a for room.
func (b *Budget) withdraw(a *account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.withdraw(a)
}

// requests returns how many workers a has to let leave: idle ones, and workers in any
// state.
func (b *Budget) requests(a *account) (idle, busy int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ledger.short.Load() {
		b.ledger.reclaim(b.now())
	}
	return a.asked, a.hurried
}

// gave records that a lets a worker leave as requested.
func (b *Budget) gave(a *account, how departure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.gave(a, how)
	if how == wasPressed {
		b.notes.put(budgetNote{pool: a.name})
	}
}

// refuse records that a cannot let that many of the requested workers leave.
func (b *Budget) refuse(a *account, idle, busy int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.refuse(a, idle, busy, b.now())
}

// release returns the room of a worker whose process has ended.
func (b *Budget) release(a *account, bytes int64, how departure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.release(a, bytes, how, b.now())
	b.madeRoom()
}

// weigh records measured sizes, see ledger.weigh.
func (b *Budget) weigh(a *account, more, need int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.weigh(a, more, need, b.now())
	b.madeRoom()
	u := b.ledger.usage()
	over := b.config.Memory > 0 && u.bytes > b.config.Memory && b.ledger.short.Load()
	if over && !b.over {
		b.notes.put(budgetNote{bytes: u.bytes, workers: u.workers})
	}
	b.over = over
}

// free returns how many workers of a could start now, up to most.
func (b *Budget) free(a *account, most int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.free(a, most)
}

// budgetNote is a log entry: a busy worker of a pool gives way, or the workers use too
// much memory.
type budgetNote struct {
	pool    string
	bytes   int64
	workers int
}

// budgetNotes passes notes to a logger, which may be slow. It drops notes that arrive
// faster than the logger takes them.
type budgetNotes struct {
	logger *slog.Logger
	queue  chan budgetNote
	ended  chan struct{}
}

func newBudgetNotes(logger *slog.Logger) *budgetNotes {
	n := &budgetNotes{logger: logger, queue: make(chan budgetNote, 64), ended: make(chan struct{})}
	// Ends when the last pool leaves the budget; close waits for it.
	go n.run()
	return n
}

// put queues note, or drops it. n may be nil. Budget.mu is held, so that no note is put
// after close.
func (n *budgetNotes) put(note budgetNote) {
	if n == nil {
		return
	}
	select {
	case n.queue <- note:
	default:
	}
}

func (n *budgetNotes) run() {
	defer close(n.ended)
	ctx := context.Background()
	for note := range n.queue {
		if note.pool != "" {
			n.logger.InfoContext(ctx, "a busy worker is replaced to make room for another pool", "pool", note.pool)
			continue
		}
		n.logger.WarnContext(ctx, "workers use more memory than their budget, and none can be replaced", "bytes", note.bytes, "workers", note.workers)
	}
}

// close writes the remaining notes, for at most a second, and ends the goroutine.
func (n *budgetNotes) close() {
	close(n.queue)
	select {
	case <-n.ended:
	case <-time.After(time.Second):
	}
}
