package jet

import (
	"bytes"
	"sync"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// pending is a put that was sent and not answered.
type pending struct {
	put  engine.Put
	done func(uint64, error)
	size int64 // what it takes of the room for jobs; 0 for other streams
	// began and sent are the ticks of the first and the newest try.
	began, sent int64
	// resend is the tick of the next try; 0 is none. Never on a disconnection.
	resend int64
	// lost says that a try went unanswered, so that it may have been stored.
	lost bool
	// sending says that its first try still reads the data of the put.
	sending bool
}

// repeatable reports whether a second try cannot store the put twice.
func (p *pending) repeatable() bool { return p.put.New || p.put.After > 0 }

// puts is the table of the puts that are under way. An answer finds its put by
// a token: the place in the table, and the number of the put, which tells those
// apart that had the same place one after the other.
type puts struct {
	mu     sync.Mutex
	slots  []slot   // guarded by mu
	turn   uint32   // guarded by mu: how many puts there were
	free   []uint32 // guarded by mu: places that are empty
	open   int      // guarded by mu: puts whose done was not called yet, in the table or not
	closed bool     // guarded by mu: no more are taken
	over   bool     // guarded by mu: nobody waits for answers any more
	idle   chan struct{}
}

type slot struct {
	pending
	turn uint32
	used bool
}

func newPuts() *puts { return &puts{idle: make(chan struct{})} }

// add notes a put and returns its token, or ErrClosed.
func (t *puts) add(p *pending) (token uint64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, engine.ErrClosed
	}
	var at uint32
	if n := len(t.free); n > 0 {
		at = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		at = uint32(len(t.slots))
		t.slots = append(t.slots, slot{})
	}
	t.turn++
	s := &t.slots[at]
	s.turn = t.turn
	s.used = true
	s.pending = *p
	s.sending = true
	t.open++
	return s.token(at), nil
}

// token names a place, the put that is there now, and its stream.
func (s *slot) token(at uint32) uint64 {
	return uint64(s.turn)<<32 | uint64(at)<<2 | uint64(s.put.Stream)
}

// tokenStream returns to which stream the put of a token goes.
func tokenStream(token uint64) engine.Stream { return engine.Stream(token & 3) }

// tokenPlace returns where the put of a token is.
func tokenPlace(token uint64) uint32 { return uint32(token) >> 2 }

// find returns the place of a token, or nil. t.mu is held.
func (t *puts) find(token uint64) *slot {
	at := tokenPlace(token)
	if int(at) >= len(t.slots) {
		return nil
	}
	s := &t.slots[at]
	if !s.used || s.turn != uint32(token>>32) {
		return nil
	}
	return s
}

// remove empties a place. t.mu is held.
func (t *puts) remove(s *slot, at uint32) pending {
	p := s.pending
	s.pending = pending{}
	s.used = false
	t.free = append(t.free, at)
	return p
}

// take removes the put of a token. Whoever takes it calls its done, and then ended.
func (t *puts) take(token uint64) (pending, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.find(token)
	if s == nil {
		return pending{}, false
	}
	return t.remove(s, tokenPlace(token)), true
}

// sent says that the first try was handed to the connection. false: nobody will
// wait for its answer, so the caller ends the put.
func (t *puts) sent(token uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.find(token); s != nil {
		s.sending = false
		return !t.over
	}
	return true
}

// later puts the next try off to a tick; false when the put is gone or has been
// tried for too long.
func (t *puts) later(token uint64, tick, patience int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.find(token)
	if s == nil {
		return false
	}
	if tick-s.began > patience {
		return false
	}
	s.resend = tick
	return true
}

// ended says that done was called for a put that was taken.
func (t *puts) ended() {
	t.mu.Lock()
	t.open--
	last := t.closed && t.open == 0
	t.mu.Unlock()
	if last {
		close(t.idle)
	}
}

// close takes no more puts. The channel is closed when all have ended.
func (t *puts) close() (idle <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return t.idle
	}
	t.closed = true
	if t.open == 0 {
		close(t.idle)
	}
	return t.idle
}

// again is a put to be sent once more.
type again struct {
	token uint64
	put   engine.Put
}

// sweep goes through the table: it returns the puts that are to be tried again
// now, and removes those that are given up. lost says that the connection is
// gone, patience how many ticks an answer may take.
func (t *puts) sweep(tick, patience int64, lost bool) (retry []again, over []pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at := range t.slots {
		s := &t.slots[at]
		if !s.used || s.sending {
			continue
		}
		silent := s.resend == 0 && (lost || tick-s.sent > patience)
		if silent {
			s.lost = true
		}
		switch {
		case silent && !s.repeatable(), tick-s.began > 2*patience:
			over = append(over, t.remove(s, uint32(at)))
		case silent && lost:
			// It is sent again when there is a connection.
			s.resend = tick + 1
		case !lost && (silent || s.resend > 0 && s.resend <= tick):
			s.resend, s.sent = 0, tick
			p := s.put
			p.Data = bytes.Clone(p.Data) // The put may be answered while it is sent again.
			retry = append(retry, again{token: s.token(uint32(at)), put: p})
		}
	}
	t.shrink()
	return retry, over
}

// leastSlots is how many places the table keeps in any case.
const leastSlots = 256

// shrink gives back the memory of places behind the last put that is under way, when
// few are used, and has those in front taken first, so that the others become empty.
// t.mu is held.
func (t *puts) shrink() {
	n := len(t.slots)
	if n <= max(leastSlots, 4*(n-len(t.free))) {
		return
	}
	for n > leastSlots && !t.slots[n-1].used {
		n--
	}
	t.slots = append(make([]slot, 0, n), t.slots[:n]...)
	t.free = make([]uint32, 0, n)
	for at := n - 1; at >= 0; at-- {
		if !t.slots[at].used {
			t.free = append(t.free, uint32(at))
		}
	}
}

// takeAll empties the table, but for what is just being sent. Answers will not be
// waited for any more.
func (t *puts) takeAll() (over []pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for at := range t.slots {
		if s := &t.slots[at]; s.used && !s.sending {
			over = append(over, t.remove(s, uint32(at)))
		}
	}
	return over
}
