package process

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// ledger holds the accounts of a Budget and makes all its decisions. It has no clock,
// processes or goroutines: callers pass the time, and the ledger wakes pools by poke.
// Times are in nanoseconds.
type ledger struct {
	workers  int   // bound; 0 for none
	memory   int64 // bound; 0 for none
	starts   tokens
	accounts []*account
	waiting  []*account  // by purpose, then in order of arrival
	short    atomic.Bool // a pool lacks room, and no idle worker can leave

	taken, reclaimed, hurried uint64
}

// usage is what all pools use, and what is promised to them beyond that.
type usage struct {
	workers, promised    int
	bytes, promisedBytes int64
	surplus              int // workers beyond the promised ones
}

func (l *ledger) usage() (u usage) {
	for _, a := range l.accounts {
		u.workers += a.workers
		u.bytes += a.bytes
		if open := a.min - a.workers; open > 0 {
			u.promised += open
			u.promisedBytes += int64(open) * a.need
		} else {
			u.surplus -= open
		}
	}
	return u
}

// demands returns what a budget must have room for from the start: all promised
// workers, and one worker of the largest pool without promised workers.
func demands(accounts []*account) (workers int, bytes int64) {
	var loose int64
	for _, a := range accounts {
		workers += a.min
		bytes += int64(a.min) * a.plan
		if a.min == 0 {
			loose = max(loose, a.plan)
		}
	}
	if loose > 0 {
		workers++
	}
	return workers, bytes + loose
}

// admits reports whether the demands of accounts fit.
func (l *ledger) admits(accounts []*account) bool {
	workers, bytes := demands(accounts)
	return (l.workers == 0 || workers <= l.workers) && (l.memory == 0 || bytes <= l.memory)
}

// missing returns by how much one more worker of a would exceed the bounds, 0 or less
// if it fits.
func (l *ledger) missing(a *account, u usage) (workers int, bytes int64) {
	workers, bytes = u.workers+1, u.bytes+a.need
	if a.workers >= a.min {
		workers += u.promised
		bytes += u.promisedBytes
	}
	return l.beyond(workers, bytes)
}

// beyond returns by how much workers and bytes exceed the bounds.
func (l *ledger) beyond(workers int, bytes int64) (int, int64) {
	if workers -= l.workers; l.workers == 0 {
		workers = 0
	}
	if bytes -= l.memory; l.memory == 0 {
		bytes = 0
	}
	return workers, bytes
}

// fits reports whether there is room for one more worker of a.
func (l *ledger) fits(a *account) bool {
	u := l.usage()
	workers, bytes := l.missing(a, u)
	if workers > 0 || bytes <= 0 {
		return workers <= 0
	}
	// Promised workers grow too. If no pool has a surplus, a pool must not wait forever
	// for its first worker.
	return u.surplus == 0 && (a.workers < a.min || a.workers == 0)
}

// free returns how many more workers of a fit, up to most.
func (l *ledger) free(a *account, most int) int {
	u := l.usage()
	n := most
	if l.workers > 0 {
		n = min(n, l.workers-u.workers-u.promised)
	}
	if l.memory > 0 {
		n = min(n, int(max(0, l.memory-u.bytes-u.promisedBytes)/max(a.need, 1)))
	}
	return min(most, max(n, 0)+max(0, a.min-a.workers))
}

// take gives room for one worker to a and reports true. Otherwise it adds a to the
// waiting pools, and again is when a must ask again unless it is poked first, 0 for
// never.
func (l *ledger) take(a *account, why purpose, now int64) (ok bool, again int64) {
	if a.workers < a.min {
		why = forMin
	}
	l.line(a, why, now)
	if l.waiting[0] != a || !l.fits(a) {
		l.reclaim(now)
		if why == forSpare {
			return false, 0
		}
		if again = a.pressed + a.turn; again <= now {
			again = now + a.turn // the workers that leave for it are on their way
		}
		return false, again
	}
	if at := l.starts.take(now); at > now {
		return false, at
	}
	l.enter(a)
	return true, 0
}

// grab is take without waiting. again is when to try again, 0 if there is no room.
func (l *ledger) grab(a *account, now int64) (ok bool, again int64) {
	if len(l.waiting) > 0 || !l.fits(a) {
		return false, 0
	}
	if at := l.starts.take(now); at > now {
		return false, at
	}
	l.enter(a)
	return true, 0
}

// enter records a new worker of a.
func (l *ledger) enter(a *account) {
	a.workers++
	a.bytes += a.need
	l.taken++
	l.withdraw(a)
}

// line adds a to the waiting pools, or changes its purpose.
func (l *ledger) line(a *account, why purpose, now int64) {
	if a.waits == why {
		return
	}
	if a.waits == forNothing {
		a.since, a.pressed = now, now
	} else {
		l.unline(a)
	}
	a.waits = why
	if why == forMin {
		a.pressed = now - a.turn // promised workers need not wait for a turn
	}
	i := len(l.waiting)
	for i > 0 && l.waiting[i-1].waits > why {
		i--
	}
	l.waiting = slices.Insert(l.waiting, i, a)
}

func (l *ledger) unline(a *account) {
	l.waiting = slices.DeleteFunc(l.waiting, func(other *account) bool { return other == a })
}

// withdraw removes a from the waiting pools.
func (l *ledger) withdraw(a *account) {
	if a.waits != forNothing {
		l.unline(a)
		a.waits = forNothing
	}
	l.advance()
}

// advance pokes the first waiting pool if there is room for it.
func (l *ledger) advance() {
	if len(l.waiting) > 0 && l.fits(l.waiting[0]) {
		l.waiting[0].poke()
	}
}

// lack returns what the waiting pools lack once all requested idle workers have left.
// Spare workers do not count.
func (l *ledger) lack() (workers int, bytes int64) {
	u := l.usage()
	workers, bytes = u.workers+u.promised, u.bytes+u.promisedBytes
	for _, a := range l.waiting {
		if a.waits == forTask { // forMin is counted as promised
			workers++
			bytes += a.need
		}
	}
	for _, a := range l.accounts {
		workers -= a.giving
		bytes -= int64(a.giving) * a.mean()
	}
	return l.beyond(workers, bytes)
}

// reclaim requests as many idle workers as are lacking, the least valuable first.
func (l *ledger) reclaim(now int64) {
	workers, bytes := l.lack()
	// Set before idlest reads the idle workers: a pool publishes its idle workers
	// before it reads short, so one of the two sees the other.
	l.short.Store(workers > 0 || bytes > 0)
	for workers > 0 || bytes > 0 {
		a := l.idlest(now)
		if a == nil {
			l.press(now)
			return
		}
		a.asked++
		a.giving++
		workers--
		bytes -= a.mean()
		a.poke()
	}
	l.short.Store(false)
}

// idlest returns the pool with the least valuable idle worker: the one with the largest
// product of size and idle time. It returns nil if no pool can give one.
func (l *ledger) idlest(now int64) *account {
	var least *account
	waste := 0.0
	for _, a := range l.accounts {
		rested := a.rested.Load()
		if rested == 0 || rested == a.refused || int(a.idle.Load()) <= a.asked || a.surplus() <= 0 ||
			!a.gives || a.waits == forMin || a.waits == forTask {
			continue
		}
		if v := float64(max(now-rested, 0)+1) * float64(a.mean()); v > waste {
			least, waste = a, v
		}
	}
	return least
}

// press requests busy workers for pools that have waited their turn. Otherwise a pool
// that is never idle would keep its room forever.
func (l *ledger) press(now int64) {
	for _, a := range l.waiting {
		if a.waits == forSpare || now < a.pressed+a.turn {
			continue
		}
		a.pressed = now
		workers, bytes := l.missing(a, l.usage())
		for workers > 0 || bytes > 0 {
			from := l.richest(a)
			if from == nil {
				break
			}
			from.hurried++
			from.ceding++
			workers--
			bytes -= from.mean()
			from.poke()
		}
	}
}

// richest returns the pool with the largest surplus, or nil if no pool has to give a
// worker to a. A pool need not give if a would then have more.
func (l *ledger) richest(a *account) *account {
	least := 1
	if a.workers > 0 && a.workers >= a.min {
		least = a.surplus() + 2
	}
	var most *account
	for _, other := range l.accounts {
		if n := other.surplus(); other != a && other.gives && n >= least && (most == nil || n > most.surplus()) {
			most = other
		}
	}
	return most
}

// refuse records that a cannot let that many of the requested workers leave.
func (l *ledger) refuse(a *account, idle, busy int, now int64) {
	a.asked -= idle
	a.giving -= idle
	a.hurried -= busy
	a.ceding -= busy
	a.refused = a.rested.Load()
	l.reclaim(now)
}

// gave records that a lets a worker leave as requested.
func (l *ledger) gave(a *account, how departure) {
	if how == wasAsked {
		a.asked--
		l.reclaimed++
	} else {
		a.hurried--
		l.hurried++
	}
}

// release removes a worker of a that has ended.
func (l *ledger) release(a *account, bytes int64, how departure, now int64) {
	a.workers--
	a.bytes -= bytes
	switch how {
	case wasAsked:
		a.giving--
	case wasPressed:
		a.ceding--
	case onItsOwn:
	}
	if len(l.waiting) > 0 {
		l.reclaim(now) // it may have been smaller than expected
		l.advance()
	}
}

// weigh adds more to the size of the workers of a, and sets the expected size of a new
// one to need unless need is 0.
func (l *ledger) weigh(a *account, more, need int64, now int64) {
	a.bytes += more
	if need > 0 && !a.declared {
		a.need = need
	}
	l.reclaim(now)
	l.advance()
}

// leave closes the account of a pool that has ended.
func (l *ledger) leave(a *account, now int64) {
	l.accounts = slices.DeleteFunc(l.accounts, func(other *account) bool { return other == a })
	l.withdraw(a)
	l.reclaim(now)
}

// longest returns the pool that has waited longest, nil if none waits.
func (l *ledger) longest() *account {
	if len(l.waiting) == 0 {
		return nil
	}
	return slices.MinFunc(l.waiting, func(a, b *account) int { return cmp.Compare(a.since, b.since) })
}
