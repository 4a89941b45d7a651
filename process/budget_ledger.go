package process

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// ledger is the books of a Budget and all that is decided from them. It has no
// clock, process or goroutine: time is told to it, and it tells pools to look by
// poke. Times are in nanoseconds.
type ledger struct {
	workers  int   // bound; 0 for none
	memory   int64 // bound; 0 for none
	starts   tokens
	accounts []*account
	waiting  []*account  // by purpose, then as they came
	short    atomic.Bool // somebody lacks room, and no worker that idles can give it

	taken, reclaimed, hurried uint64
}

// usage is what all pools have together, and what is promised to them beyond.
type usage struct {
	workers, promised    int
	bytes, promisedBytes int64
	surplus              int // workers beyond those promised
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

// demands is what must fit into a budget from the start: what is promised, and
// one worker for the largest pool that is promised none.
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

// admits reports whether what accounts must have fits.
func (l *ledger) admits(accounts []*account) bool {
	workers, bytes := demands(accounts)
	return (l.workers == 0 || workers <= l.workers) && (l.memory == 0 || bytes <= l.memory)
}

// missing is what one more worker of a goes beyond the bounds, 0 or less where it
// has room.
func (l *ledger) missing(a *account, u usage) (workers int, bytes int64) {
	workers, bytes = u.workers+1, u.bytes+a.need
	if a.workers >= a.min {
		workers += u.promised
		bytes += u.promisedBytes
	}
	return l.beyond(workers, bytes)
}

// beyond is by how much the bounds are exceeded.
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
	// Workers grow, also those that are promised. When nobody has one to give, no
	// pool waits for ever for its first one.
	return u.surplus == 0 && (a.workers < a.min || a.workers == 0)
}

// free is how many more workers of a fit, up to most.
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

// take gives a room for one worker, or puts it into the line; then again is when
// it has to ask again by itself, 0 for not before it is poked.
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
			again = now + a.turn // those who are to leave for it are on their way
		}
		return false, again
	}
	if at := l.starts.take(now); at > now {
		return false, at
	}
	l.enter(a)
	return true, 0
}

// grab is take for one that does not wait. again is when to try again, 0 when
// there is no room.
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

// enter books a new worker of a.
func (l *ledger) enter(a *account) {
	a.workers++
	a.bytes += a.need
	l.taken++
	l.withdraw(a)
}

// line lets a wait for what it asks for.
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
		a.pressed = now - a.turn // it is promised: its turn has come
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

// withdraw takes a out of the line.
func (l *ledger) withdraw(a *account) {
	if a.waits != forNothing {
		l.unline(a)
		a.waits = forNothing
	}
	l.advance()
}

// advance pokes the first of the line when there is room for it.
func (l *ledger) advance() {
	if len(l.waiting) > 0 && l.fits(l.waiting[0]) {
		l.waiting[0].poke()
	}
}

// lack is what is missing for all that wait, but for spare ones, when those that
// have been asked to give way will have left.
func (l *ledger) lack() (workers int, bytes int64) {
	u := l.usage()
	workers, bytes = u.workers+u.promised, u.bytes+u.promisedBytes
	for _, a := range l.waiting {
		if a.waits == forTask { // those of forMin are promised
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

// reclaim asks pools with idle workers for as many as are lacking, those that are
// worth least first.
func (l *ledger) reclaim(now int64) {
	workers, bytes := l.lack()
	// Told before it is looked who idles: a pool looks at it after it has shown
	// that, so one of both sees the other.
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

// idlest is the pool with the idle worker that is worth least: the product of
// its size and the time that it has idled is the largest. Nil when no pool can
// give one.
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

// press asks for busy workers, on behalf of those that have waited their turn:
// else a pool that is never idle would keep its room for ever.
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

// richest is the pool that has most workers beyond those promised, if it is to
// give one to a: not when a would then have more.
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

// refuse says that a has so many workers less to give than it was asked for.
func (l *ledger) refuse(a *account, idle, busy int, now int64) {
	a.asked -= idle
	a.giving -= idle
	a.hurried -= busy
	a.ceding -= busy
	a.refused = a.rested.Load()
	l.reclaim(now)
}

// gave says that a lets a worker leave as it was asked to.
func (l *ledger) gave(a *account, how departure) {
	if how == wasAsked {
		a.asked--
		l.reclaimed++
	} else {
		a.hurried--
		l.hurried++
	}
}

// release takes a worker of a off the books, that has ended.
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
		l.reclaim(now) // it may have been smaller than was thought
		l.advance()
	}
}

// weigh books that workers of a have become so much larger, and what a new one is
// expected to need, 0 for what is known already.
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

// longest is the waiting pool that came first, nil when none waits.
func (l *ledger) longest() *account {
	if len(l.waiting) == 0 {
		return nil
	}
	return slices.MinFunc(l.waiting, func(a, b *account) int { return cmp.Compare(a.since, b.since) })
}
