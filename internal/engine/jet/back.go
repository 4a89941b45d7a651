package jet

import (
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// back counts the messages that this engine gave back, whose delay has passed, and that
// were not handed out since. The server counts them as taken.
type back struct {
	// forget is how long such a message is counted, as another node may have taken it; 0
	// is until it is handed out here.
	forget time.Duration

	mu  sync.Mutex
	all map[engine.Consumer]map[uint64]time.Time // guarded by mu: when the delay of each message passes, by sequence number

	given  map[uint64]returned // guarded by mu: by sequence number
	news   chan struct{}       // guarded by mu: closed by the next note; nil if no goroutine waits
	pruned int                 // guarded by mu: how many remained when old ones were last removed
}

// give records that seq was given back.
func (b *back) give(c engine.Consumer, seq uint64, delay time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all == nil {
		b.all = map[engine.Consumer]map[uint64]time.Time{}
	}
	if b.all[c] == nil {
		b.all[c] = map[uint64]time.Time{}
	}
	b.all[c][seq] = time.Now().Add(max(delay, 0))
}

// take records that seq was handed out.
func (b *back) take(c engine.Consumer, seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all[c], seq)
}

// remove records that seq was deleted.
func (b *back) remove(seq uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, of := range b.all {
		delete(of, seq)
	}
}

// count returns how many messages of c wait.
func (b *back) count(c engine.Consumer) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	now := time.Now()
	for seq, due := range b.all[c] {
		switch waited := now.Sub(due); {
		case b.forget > 0 && waited > b.forget:
			delete(b.all[c], seq)
		case waited >= 0:
			n++
		}
	}
	return n
}
