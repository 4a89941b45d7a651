package pool

import (
	"errors"
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/durations"
)

// buckets is the number of buckets of a histogram, from one nanosecond to 50 minutes.
const buckets = 160

// histogram counts durations. It is written with atomic operations by several
// goroutines.
type histogram struct {
	sum     atomic.Int64
	max     atomic.Int64
	buckets [buckets]atomic.Uint64
}

func (h *histogram) add(ns int64, weight uint64) {
	ns = max(ns, 0)
	h.sum.Add(ns * int64(weight))
	h.buckets[bucketOf(ns)].Add(weight)
	for {
		most := h.max.Load()
		if ns <= most || h.max.CompareAndSwap(most, ns) {
			return
		}
	}
}

// bucketOf gives the bucket of a duration.
func bucketOf(ns int64) int { return min(durations.Bucket(time.Duration(ns)), buckets-1) }

// Histogram is a snapshot of how long something took. Where tasks take less than
// about five microseconds, one of 64 is measured and counts for all of them; so
// Count is near the number of tasks, not equal.
type Histogram struct {
	Count uint64
	Sum   time.Duration
	Max   time.Duration
	// Buckets has the counts, by [Histogram.Bound].
	Buckets [buckets]uint64
}

func (h *Histogram) merge(from *histogram) {
	h.Sum += time.Duration(from.sum.Load())
	h.Max = max(h.Max, time.Duration(from.max.Load()))
	for i := range from.buckets {
		n := from.buckets[i].Load()
		h.Buckets[i] += n
		h.Count += n
	}
}

// Bound returns the largest duration that bucket i counts, a round number of seconds.
// The last bucket counts all that are longer, too.
func (*Histogram) Bound(i int) time.Duration {
	if i >= buckets-1 {
		return math.MaxInt64
	}
	return durations.Edge(i)
}

// Mean returns the mean, 0 where nothing was measured.
func (h *Histogram) Mean() time.Duration {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / time.Duration(h.Count)
}

// Quantile returns a duration that the part q (0 to 1) of all do not exceed, 0 where
// nothing was measured. It may be too long by a quarter, never too short.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count == 0 {
		return 0
	}
	rank := uint64(0) // of the one that is looked for, from 0
	if q > 0 {
		rank = uint64(math.Ceil(min(q, 1)*float64(h.Count))) - 1
	}
	for i, n := range h.Buckets {
		if rank < n {
			return min(h.Bound(i), h.Max)
		}
		rank -= n
	}
	return h.Max
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
