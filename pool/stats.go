package pool

import (
	"errors"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/histogram"
)

// kind is what tasks of one name are counted by.
type kind struct {
	name    string
	pool    *Pool
	never   atomic.Uint64 // accepted but never started
	slabs   sync.Pool     // of *slab[func(context.Context) error, struct{}], of its groups
	stripes []kindStripe
}

// kindStripe is a part of the counts, written by some of the workers.
type kindStripe struct {
	outcomes  [bullpen.OutcomeCount]atomic.Uint64
	wait, run histogram.Counter
	_         [64]byte
}

// kindOf returns the kind that counts an item.
func (p *Pool) kindOf(it item) *kind {
	if k := it.named(); k != nil {
		return k
	}
	return p.main.kind
}

func (k *kind) neverStarted() { k.never.Add(1) }

// stripe is the index of the stripe in which a worker counts. Workers are spread over the
// stripes so that they do not all write the same cache line.
type stripe int

func (s stripe) of(k *kind) *kindStripe { return &k.stripes[s] }

// count returns the counter for tasks that end with err.
func (s stripe) count(k *kind, err error) *atomic.Uint64 {
	if o, started := bullpen.OutcomeOf(err); started {
		if o == bullpen.Canceled && errors.Is(err, bullpen.ErrClosed) && k.pool.state.State() >= Closing {
			k.pool.counters.aborted.Add(1)
		}
		return &s.of(k).outcomes[o]
	}
	return &k.never
}

// outcome counts how a task ended.
func (s stripe) outcome(k *kind, err error) { s.count(k, err).Add(1) }

// counters are those of a pool.
type counters struct {
	pool     *Pool
	stripes  int
	blocked  atomic.Int64  // callers that wait at full queues
	refused  atomic.Uint64 // tasks that were not accepted
	overruns atomic.Uint64
	late     atomic.Uint64 // bodies that returned after their tasks were answered
	helped   atomic.Uint64 // tasks that callers ran
	// aborted counts tasks that Close canceled; unstarted counts tasks that Stop or Close
	// ended before they started.
	aborted, unstarted atomic.Uint64

	mu    sync.Mutex
	kinds map[string]*kind // guarded by mu
}

const mostStripes = 16

func (t *counters) init(p *Pool) {
	t.pool = p
	t.stripes = 1 << (bits.Len(uint(min(runtime.GOMAXPROCS(0), p.config.Max, mostStripes))) - 1)
	t.kinds = map[string]*kind{}
}

func (t *counters) stripe(worker int) stripe { return stripe(worker & (t.stripes - 1)) }

// kind returns the kind of a name, and creates it if necessary.
func (t *counters) kind(name string) *kind {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kinds[name]
	if k == nil {
		k = &kind{name: name, pool: t.pool, stripes: make([]kindStripe, t.stripes)}
		t.kinds[name] = k
	}
	return k
}
