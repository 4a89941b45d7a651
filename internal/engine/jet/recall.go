package jet

import (
	"context"
	"time"
)

// barrierToken ends the subject for the answer to a barrier. It is not a number, unlike
// the tokens of requests.
const barrierToken = ".-"

// barrier asks the server that hands out for an answer, which comes after everything it
// has sent before. The question answers a delivery in a way that has no effect. t.mu is
// held.
func (f *feed) barrier() error {
	e := f.taker.engine
	return e.conn.PublishRequest(e.silentWord(f.taker.consumer), f.inbox+barrierToken[1:], []byte("?"))
}

// passed handles the answer to a barrier. An answer that no server responded is as good.
func (f *feed) passed() {
	t := f.taker
	t.mu.Lock()
	n := f.shut(f.recalled)
	f.recalled = 0
	f.wake()
	t.mu.Unlock()
	t.giveBack(n)
}

// wake wakes the goroutine that waits for a barrier. t.mu is held.
func (f *feed) wake() {
	if f.settled != nil {
		close(f.settled)
		f.settled = nil
	}
}

// Recall implements [engine.Taker].
func (t *taker) Recall() {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.feeds[slow]
	if f == nil || f.open == 0 {
		return
	}
	f.recalled = f.open
	if err := f.barrier(); err != nil {
		// The requests expire soon, or the connection is lost.
		t.engine.log.Debug("jet: requests could not be withdrawn", "consumer", consumerName(t.consumer), "error", err)
	}
}

// spare returns how many due messages have no waiting caller. t.mu is held.
func (f *feed) spare() int {
	if f == nil {
		return 0
	}
	return f.due - f.open
}

// stands serves up to n places of a new waiting request with recalled places that are
// still due, and returns how many. t.mu is held.
func (t *taker) stands(n int) int {
	f := t.feeds[slow]
	n = min(n, f.spare())
	if n > 0 {
		f.open += n
	}
	return n
}

// standIn does the same, for a moment, for a request that was refused because the waiting
// requests are served first. t.mu is held.
func (t *taker) standIn(n int) int {
	n = t.stands(n)
	if n > 0 {
		t.feeds[slow].brief += n
	}
	return n
}

// overdue closes the account of places that have stood in long enough. t.mu is held.
func (t *taker) overdue() int {
	f := t.feeds[slow]
	if f == nil {
		return 0
	}
	n := f.shut(f.leaving)
	f.leaving, f.brief = min(f.brief, f.open), 0
	return n
}

// account charges a delivery to f or, if f has no open places because they were recalled
// or taken over, to the other feed. It returns false if no request is open. t.mu is held.
func (t *taker) account(f *feed) (mine bool) {
	defer func() { f.owe(f.due - 1) }()
	for _, g := range [...]*feed{f, t.feeds[slow], t.feeds[quick]} {
		if g == nil || g.open == 0 {
			continue
		}
		if g.brief > 0 {
			g.brief--
		} else if g.leaving > 0 {
			g.leaving--
		}
		g.shut(1)
		return true
	}
	return false
}

// leave keeps a feed of a stopped taker, and gives its messages back, until nothing is
// due.
func (e *Engine) leave(f *feed) {
	t := f.taker
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.due == 0 || !e.connected.Load() {
		t.retire(f)
		return
	}
	f.dry = make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaving = append(e.leaving, left{feed: f, dry: f.dry, until: time.Now().Add(requestWaits + tick)})
}

// left is a feed whose taker has stopped.
type left struct {
	feed  *feed
	dry   <-chan struct{}
	until time.Time // when all its requests have expired
}

// over reports whether no more messages come.
func (l *left) over() bool {
	select {
	case <-l.dry:
		return true
	default:
		return !time.Now().Before(l.until)
	}
}

// sweepLeaving ends the feeds whose requests have expired.
func (e *Engine) sweepLeaving() {
	e.mu.Lock()
	var over []*feed
	kept := e.leaving[:0]
	for _, l := range e.leaving {
		if l.over() {
			over = append(over, l.feed)
		} else {
			kept = append(kept, l)
		}
	}
	clear(e.leaving[len(kept):])
	e.leaving = kept
	e.mu.Unlock()
	for _, f := range over {
		f.retire()
	}
}

// drop ends all feeds of stopped takers once their requests have expired. Before that, a
// message that came without a subscription would have to wait for its lease.
func (e *Engine) drop(ctx context.Context) {
	e.mu.Lock()
	all := e.leaving
	e.leaving = nil
	e.mu.Unlock()
	for _, l := range all {
		if e.connected.Load() {
			l.wait(ctx)
		}
		l.feed.retire()
	}
}

// wait waits until no more messages come.
func (l *left) wait(ctx context.Context) {
	timer := time.NewTimer(time.Until(l.until))
	defer timer.Stop()
	select {
	case <-l.dry:
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (f *feed) retire() {
	f.taker.mu.Lock()
	defer f.taker.mu.Unlock()
	f.taker.retire(f)
}
