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

// DefaultNeed is the memory that a worker is expected to use when nothing is
// told or measured, in bytes.
const DefaultNeed = 64 << 20

// leastTurn is the least time for which a pool waits for room before busy
// workers of others are asked to give way after the tasks that they have in hand.
const leastTurn = time.Second

// BudgetConfig says what the worker processes of several pools may use together.
// Zero fields bound nothing.
type BudgetConfig struct {
	// Memory is the bytes of all workers together. A worker counts with
	// Config.Need, or with its resident size where that is larger; one of a pool
	// whose need is not told counts with its resident size once that has been
	// measured. Pages that workers share count for each of them. The bound keeps
	// workers from being started; it is soft for those that grow while they
	// work, see Config.Limits and Recycle.Memory for those.
	Memory int64
	// Workers is the number of processes at a time. Those that leave count until
	// they have ended.
	Workers int
	// Starts is how many processes are started a second, on the average; up to
	// max(4, 2*GOMAXPROCS) may follow each other at once.
	Starts float64
	// Logger gets a warning when the workers have grown above Memory and none can
	// give way, and a note of busy workers that must; nil means none. What else
	// happens is an event of the pool to which it happens.
	Logger *slog.Logger
}

// Budget is one bound of memory, processes and starts for all pools that name it
// in their Config. A pool that needs a worker for a task and finds no room waits
// for it, first come first served, while pools whose workers idle let some of them
// leave: those that waste most, by size and idle time, first. Min workers of a pool
// are promised to it and never asked for. A pool whose workers are never idle must
// give way too, after the tasks in hand, to one that has waited for ten times what
// a start costs it, and for a second at least.
//
// Workers that are only started as spare ones wait for room until no pool wants
// it for tasks, and nobody leaves for them. With the protocol Exec a process
// counts while it runs.
//
// A Budget holds nothing that must be closed. All methods are safe for concurrent
// use. A task that needs no start touches no lock of it.
type Budget struct {
	config BudgetConfig
	epoch  time.Time

	// mu is taken while one Pool.mu may be held; under it, no Pool.mu is taken.
	mu     sync.Mutex
	ledger ledger            // +checklocks:mu
	waited bullpen.Histogram // of starts that had to wait; +checklocks:mu
	over   bool              // more memory is used than is allowed; +checklocks:mu
	notes  *budgetNotes      // while a pool is here and there is a logger; +checklocks:mu
}

// NewBudget checks c and makes a budget of it. All faults of c are reported at
// once.
func NewBudget(c BudgetConfig) (*Budget, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Memory < 0 {
		bad("Memory is %d: use a number of bytes above 0, or 0 for no bound", c.Memory)
	}
	if c.Workers < 0 {
		bad("Workers is %d: use 1 or more processes, or 0 for no bound", c.Workers)
	}
	if c.Starts < 0 || math.IsNaN(c.Starts) || math.IsInf(c.Starts, 0) {
		bad("Starts is %g: use a rate above 0, or 0 for no bound", c.Starts)
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

// now is the time since the budget's epoch in nanoseconds.
func (b *Budget) now() int64 { return int64(time.Since(b.epoch)) }

// BudgetStats is a snapshot of a Budget.
type BudgetStats struct {
	// Pools that have named the budget and have not ended.
	Pools int
	// Workers are the processes, those about to start and those that leave
	// included; Promised are those of the Min of pools beyond.
	Workers, Promised int
	// Memory is the bytes with which Workers count, PromisedMemory those that are
	// kept for Promised.
	Memory, PromisedMemory int64
	// Waiting pools want a worker and have no room or must not start one yet;
	// Longest is for how long the first of them has waited.
	Waiting int
	Longest time.Duration
	// Started counts the workers that got room. Reclaimed are those that idled and
	// left for other pools, Pressed those that had to leave after the task in
	// hand.
	Started, Reclaimed, Pressed uint64
	// Wait is the time for which starts had to wait, of those that had to.
	Wait bullpen.Histogram
}

// Stats returns a snapshot. It costs about a microsecond for a hundred pools.
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

// join opens the account of a pool, or says why what it must have does not fit.
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

// refusal says that minimum workers of a have no room beside the others. mu is
// held.
func (b *Budget) refusal(a *account, minimum int) error {
	others := slices.DeleteFunc(slices.Clone(b.ledger.accounts), func(other *account) bool { return other == a })
	workers, bytes := demands(others)
	return fmt.Errorf("the pool %q has no room in its Budget: it must have at least %d workers of %d bytes, the other pools %d workers and %d bytes, "+
		"and the budget is %d workers and %d bytes (0: no bound); use a smaller Min or Need, or a larger budget",
		a.name, max(minimum, 1), a.plan, workers, bytes, b.config.Workers, b.config.Memory)
}

// promise changes the number of workers that are promised to a, if they have
// room.
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

// madeRoom tells those who wait for room in a pool that there may be some. mu is held.
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

// take asks for room for one worker, see ledger.take.
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

// grab is take for one that does not wait.
func (b *Budget) grab(a *account) (ok bool, again int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.grab(a, b.now())
}

// withdraw says that a needs no more workers for now.
func (b *Budget) withdraw(a *account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.withdraw(a)
}

// requests tells how many workers a is to let leave: idle ones, and any.
func (b *Budget) requests(a *account) (idle, busy int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ledger.short.Load() {
		b.ledger.reclaim(b.now())
	}
	return a.asked, a.hurried
}

// gave says that a lets a worker leave as it was asked to.
func (b *Budget) gave(a *account, how departure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.gave(a, how)
	if how == wasPressed {
		b.notes.put(budgetNote{pool: a.name})
	}
}

// refuse says that a has so many workers less to give than it was asked for.
func (b *Budget) refuse(a *account, idle, busy int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.refuse(a, idle, busy, b.now())
}

// release gives the room of a worker back, whose process has ended.
func (b *Budget) release(a *account, bytes int64, how departure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ledger.release(a, bytes, how, b.now())
	b.madeRoom()
}

// weigh books what was measured, see ledger.weigh.
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

// free is how many workers of a might be started now, up to most.
func (b *Budget) free(a *account, most int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ledger.free(a, most)
}

// budgetNote is one thing for the logger: a busy worker of a pool that gives way,
// or that the workers have too much memory.
type budgetNote struct {
	pool    string
	bytes   int64
	workers int
}

// budgetNotes hands notes to a logger, which may be slow; what comes faster than
// it takes them is dropped.
type budgetNotes struct {
	logger *slog.Logger
	queue  chan budgetNote
	ended  chan struct{}
}

func newBudgetNotes(logger *slog.Logger) *budgetNotes {
	n := &budgetNotes{logger: logger, queue: make(chan budgetNote, 64), ended: make(chan struct{})}
	// Ends when the last pool leaves the budget, whose close waits for it.
	go n.run()
	return n
}

// put hands note over, or drops it. n may be nil. Budget.mu is held, so that none
// is put after close.
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
			n.logger.InfoContext(ctx, "a busy worker gives way to another pool", "pool", note.pool)
			continue
		}
		n.logger.WarnContext(ctx, "workers use more memory than their budget, and none can give way", "bytes", note.bytes, "workers", note.workers)
	}
}

// close writes what is left, for a second at the most, and ends.
func (n *budgetNotes) close() {
	close(n.queue)
	select {
	case <-n.ended:
	case <-time.After(time.Second):
	}
}
