package jet

import (
	"bytes"
	"sync"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// pending is a put without an answer.
type pending struct {
	put  engine.Put
	done func(uint64, error)
	size int64 // its part of the room for jobs; 0 for other streams
	// began and sent are the ticks of the first and the latest try.
	began, sent int64
	// resend is the tick of the next try; 0 for none. It never comes while disconnected.
	resend int64
	// lost means that a try was not answered, so that it may have been stored.
	lost bool
	// sending means that the first try still reads the data of the put.
	sending bool
}

// repeatable reports whether a second try cannot store the message twice.
func (p *pending) repeatable() bool { return p.put.New || p.put.After > 0 }

// puts is the table of pending puts. An answer finds its put by a token, which consists
// of the index in the table and the number of the put. The number distinguishes puts that
// used the same index one after the other.
type puts struct {
	mu      sync.Mutex
	entries []entry  // guarded by mu
	turn    uint32   // guarded by mu: how many puts there have been
	free    []uint32 // guarded by mu: free indices
	open    int      // guarded by mu: puts whose done was not yet called, in the table or not
	closed  bool     // guarded by mu: no more puts are accepted
	over    bool     // guarded by mu: answers are no longer awaited
	idle    chan struct{}
}

type entry struct {
	pending
	turn uint32
	used bool
}

func newPuts() *puts { return &puts{idle: make(chan struct{})} }

// add adds a put and returns its token, or ErrClosed.
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
		at = uint32(len(t.entries))
		t.entries = append(t.entries, entry{})
	}
	t.turn++
	s := &t.entries[at]
	s.turn = t.turn
	s.used = true
	s.pending = *p
	s.sending = true
	t.open++
	return s.token(at), nil
}

// token encodes an index, its current put, and the put's stream.
func (s *entry) token(at uint32) uint64 {
	return uint64(s.turn)<<32 | uint64(at)<<2 | uint64(s.put.Stream)
}

// tokenStream returns the stream of a token's put.
func tokenStream(token uint64) engine.Stream { return engine.Stream(token & 3) }

// tokenIndex returns the index of a token's put.
func tokenIndex(token uint64) uint32 { return uint32(token) >> 2 }

// find returns the entry of a token, nil for none. t.mu is held.
func (t *puts) find(token uint64) *entry {
	at := tokenIndex(token)
	if int(at) >= len(t.entries) {
		return nil
	}
	s := &t.entries[at]
	if !s.used || s.turn != uint32(token>>32) {
		return nil
	}
	return s
}

// remove frees an entry. t.mu is held.
func (t *puts) remove(s *entry, at uint32) pending {
	p := s.pending
	s.pending = pending{}
	s.used = false
	t.free = append(t.free, at)
	return p
}

// take removes the put of a token. The caller must call the put's done, and then ended.
func (t *puts) take(token uint64) (pending, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.find(token)
	if s == nil {
		return pending{}, false
	}
	return t.remove(s, tokenIndex(token)), true
}

// sent records that the first try was passed to the connection. It returns false if
// answers are no longer awaited; then the caller ends the put.
func (t *puts) sent(token uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.find(token); s != nil {
		s.sending = false
		return !t.over
	}
	return true
}

// later schedules the next try for a tick. It returns false if the put is gone or has
// been tried for too long.
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

// ended records that done was called for a put that was removed.
func (t *puts) ended() {
	t.mu.Lock()
	t.open--
	last := t.closed && t.open == 0
	t.mu.Unlock()
	if last {
		close(t.idle)
	}
}

// close refuses further puts. The channel is closed when all puts have ended.
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

// again is a put to send once more.
type again struct {
	token uint64
	put   engine.Put
}

// sweep returns the puts to retry now, and removes those to give up. lost means that the
// connection is lost; patience is how many ticks an answer may take.
func (t *puts) sweep(tick, patience int64, lost bool) (retry []again, over []pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for at := range t.entries {
		s := &t.entries[at]
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
			// Sent again once there is a connection.
			s.resend = tick + 1
		case !lost && (silent || s.resend > 0 && s.resend <= tick):
			s.resend, s.sent = 0, tick
			p := s.put
			p.Data = bytes.Clone(p.Data) // the put may be answered while it is sent again
			retry = append(retry, again{token: s.token(uint32(at)), put: p})
		}
	}
	t.shrink()
	return retry, over
}

// leastEntries is the minimum size of the table.
const leastEntries = 256

// shrink frees the entries behind the last pending put if few are used. Free entries at the
// front are reused first, so that the others become empty. t.mu is held.
func (t *puts) shrink() {
	n := len(t.entries)
	if n <= max(leastEntries, 4*(n-len(t.free))) {
		return
	}
	for n > leastEntries && !t.entries[n-1].used {
		n--
	}
	t.entries = append(make([]entry, 0, n), t.entries[:n]...)
	t.free = make([]uint32, 0, n)
	for at := n - 1; at >= 0; at-- {
		if !t.entries[at].used {
			t.free = append(t.free, uint32(at))
		}
	}
}

// takeAll empties the table, except for puts being sent. Answers are no longer awaited.
func (t *puts) takeAll() (over []pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for at := range t.entries {
		if s := &t.entries[at]; s.used && !s.sending {
			over = append(over, t.remove(s, uint32(at)))
		}
	}
	return over
}
