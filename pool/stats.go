package pool

import (
	"errors"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
)

// histogram counts durations. It is written with atomic operations by several
// goroutines.
type histogram struct {
	sum     atomic.Int64
	max     atomic.Int64
	buckets [len(bullpen.Histogram{}.Buckets)]atomic.Uint64
}

func (h *histogram) add(ns int64, weight uint64) {
	ns = max(ns, 0)
	h.sum.Add(ns * int64(weight))
	h.buckets[bullpen.HistogramBucket(time.Duration(ns))].Add(weight)
	for {
		most := h.max.Load()
		if ns <= most || h.max.CompareAndSwap(most, ns) {
			return
		}
	}
}

// addTo adds what h has counted to a snapshot.
func (h *histogram) addTo(s *bullpen.Histogram) {
	s.Sum += time.Duration(h.sum.Load())
	s.Max = max(s.Max, time.Duration(h.max.Load()))
	for i := range h.buckets {
		n := h.buckets[i].Load()
		s.Buckets[i] += n
		s.Count += n
	}
}

// kind is what tasks of one name are counted by.
type kind struct {
	name    string
	pool    *Pool
	never   atomic.Uint64 // accepted and never started
	slabs   sync.Pool     // of *slab[func(context.Context) error, struct{}], of its groups
	stripes []kindStripe
}

// kindStripe is the part of the counts that some of the workers write.
type kindStripe struct {
	outcomes  [bullpen.OutcomeCount]atomic.Uint64
	wait, run histogram
	_         [64]byte
}

// kindOf gives the kind by which an item is counted.
func (p *Pool) kindOf(it item) *kind {
	if k := it.named(); k != nil {
		return k
	}
	return p.main.kind
}

func (k *kind) neverStarted() { k.never.Add(1) }

// stripe says where a worker counts: workers are spread over the stripes, so that
// no line of memory is written by all.
type stripe int

func (s stripe) of(k *kind) *kindStripe { return &k.stripes[s] }

// count gives the counter for tasks that end with err.
func (s stripe) count(k *kind, err error) *atomic.Uint64 {
	if o, started := bullpen.OutcomeOf(err); started {
		if o == bullpen.Canceled && errors.Is(err, bullpen.ErrClosed) && k.pool.state.State() >= Closing {
			k.pool.tallies.aborted.Add(1)
		}
		return &s.of(k).outcomes[o]
	}
	return &k.never
}

// outcome counts how a task ended.
func (s stripe) outcome(k *kind, err error) { s.count(k, err).Add(1) }

// tallies are the counts of a pool.
type tallies struct {
	pool     *Pool
	stripes  int
	blocked  atomic.Int64  // callers at full queues
	refused  atomic.Uint64 // tasks that were not accepted
	overruns atomic.Uint64
	late     atomic.Uint64 // bodies that ended after their tasks were answered
	helped   atomic.Uint64 // tasks that callers ran
	// aborted tasks were canceled by Close, unstarted ones were ended by Stop or Close
	// before they started.
	aborted, unstarted atomic.Uint64

	mu    sync.Mutex
	kinds map[string]*kind // guarded by mu
}

const mostStripes = 16

func (t *tallies) init(p *Pool) {
	t.pool = p
	t.stripes = 1 << (bits.Len(uint(min(runtime.GOMAXPROCS(0), p.config.Max, mostStripes))) - 1)
	t.kinds = map[string]*kind{}
}

func (t *tallies) stripe(worker int) stripe { return stripe(worker & (t.stripes - 1)) }

// kind gives the kind of a name, a new one for a new name.
func (t *tallies) kind(name string) *kind {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kinds[name]
	if k == nil {
		k = &kind{name: name, pool: t.pool, stripes: make([]kindStripe, t.stripes)}
		t.kinds[name] = k
	}
	return k
}
