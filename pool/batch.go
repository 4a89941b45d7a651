package pool

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen"
)

// pace tracks how long the items of a function take, to decide how many of them to submit
// together.
type pace struct{ mean atomic.Int64 } // nanoseconds per item, 0 if unknown

// handful is how long the items submitted together may take: much longer than submitting
// them, and short for the tasks that wait behind them.
const handful = 20 * time.Microsecond

// items returns how many items make a handful, up to most.
func (p *pace) items(most int) int {
	mean := p.mean.Load()
	if mean <= 0 {
		return 1
	}
	return max(1, min(int(int64(handful)/mean), most))
}

// learn records that n items took d. It adapts to longer times immediately, to shorter ones
// slowly.
func (p *pace) learn(d time.Duration, n int) {
	took := max(int64(d)/int64(n), 1)
	if mean := p.mean.Load(); took < mean {
		took = mean - (mean-took+3)/4
	}
	p.mean.Store(took)
}

// batch is a number of items that several runners share. Each item has its own outcome.
type batch[A, R any] struct {
	f      *Func[A, R]
	span   *span // nil if the worker's context is used
	args   []A
	values []R
	out    chan<- *batch[A, R] // receives the batch when all items have ended; has room for it
	most   int                 // maximum number of items claimed at once
	task   Future[R]           // the only item, if it is a task of its own; used by the caller

	cursor  atomic.Int64 // first item that no runner has claimed
	left    atomic.Int64 // items that have not ended
	stopped atomic.Bool  // no more items start

	mu      sync.Mutex
	cause   error           // why it was stopped; mu guards the fields below
	dropped error           // why the first runner was taken out of the queue
	errs    []error         // nil if no item failed
	runners []*runner[A, R] // all runners
	queued  int             // runners that still look for items
	loose   [][2]int        // stretches taken back from runners
	answer  []bool          // items that were answered while their bodies keep running
}

// runner is the queued item of a batch: it runs stretches of the batch's items.
type runner[A, R any] struct {
	batch *batch[A, R]
	// word holds the index of the running item and the end of the stretch. It changes by
	// compare-and-swap, so that other goroutines can take back items that have not started,
	// or answer the running one.
	word  atomic.Uint64
	start atomic.Int64 // of the stretch
	seen  uint64       // word when relieve last looked; used by relieve only
}

// lostRunner is the word of a runner whose item was answered while its body keeps running.
const lostRunner = 1<<64 - 1

func newBatch[A, R any](f *Func[A, R], s *span, args []A, out chan<- *batch[A, R]) *batch[A, R] {
	b := &batch[A, R]{f: f, span: s, args: args, values: make([]R, len(args)), out: out}
	b.most = len(args)
	b.left.Store(int64(len(args)))
	return b
}

// hire adds a runner.
func (b *batch[A, R]) hire() *runner[A, R] {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := &runner[A, R]{batch: b}
	b.runners = append(b.runners, r)
	b.queued++
	return r
}

// claim gives the runner its next stretch. It returns false if there is none, with the
// number of items that it has ended instead.
func (b *batch[A, R]) claim(r *runner[A, R]) (ended int64, ok bool) {
	n := len(b.args)
	if b.stopped.Load() {
		return 0, false
	}
	if b.span != nil && b.span.Err() != nil {
		return b.halt(context.Cause(b.span.Context)), false
	}
	if p := b.f.target.pool; p.state.State() >= Stopping {
		return b.halt(p.closedError()), false
	}
	from, to := 0, 0
	if at := b.cursor.Load(); at < int64(n) {
		k := int64(b.f.pace.items(b.most))
		from = int(b.cursor.Add(k) - k)
		to = min(from+int(k), n)
	}
	if from >= to {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.loose) == 0 {
			return 0, false
		}
		last := len(b.loose) - 1
		from, to = b.loose[last][0], b.loose[last][1]
		b.loose = b.loose[:last]
	}
	r.start.Store(int64(from))
	r.word.Store(pack(from, to))
	if b.stopped.Load() { // stop may have missed this stretch
		return r.empty(), false
	}
	return 0, true
}

// empty drops all items of a runner that runs none.
func (r *runner[A, R]) empty() int64 {
	for {
		word := r.word.Load()
		i, end := unpack(word)
		if r.word.CompareAndSwap(word, pack(end, end)) {
			r.batch.mu.Lock()
			cause := r.batch.cause
			r.batch.mu.Unlock()
			r.batch.drop(i, end, cause)
			return int64(end - i)
		}
	}
}

// run runs stretches until there are no more, or until other tasks wait too.
func (r *runner[A, R]) run(w *worker) {
	b := r.batch
	ctx := context.Context(w.ctx)
	if b.span != nil {
		ctx = b.span.on(w)
	}
	if i, end := unpack(r.word.Load()); i == end {
		before := int64(end) - r.start.Load() // a stretch whose last item panicked
		dropped, ok := b.claim(r)
		if !ok {
			b.retire(before + dropped)
			return
		}
		b.ended(before)
	}
	for {
		began := time.Now()
		from := r.start.Load()
		ran, ok := r.stretch(ctx, w)
		if !ok {
			return
		}
		if ran > 0 {
			b.f.pace.learn(time.Since(began), ran)
			w.ofBatch += uint64(ran)
		}
		_, end := unpack(r.word.Load())
		w.flush()
		ended := int64(end) - from
		if dropped, ok := b.claim(r); !ok { // claim first: after the last ended, the batch must not be touched
			b.retire(ended + dropped)
			return
		}
		b.ended(ended)
		if b.f.target.pool.work() && b.f.target.try(b.f.target.queueOf(), r) {
			return // it continues behind the tasks that wait
		}
	}
}

// retire removes a runner that has ended n items and found no more.
func (b *batch[A, R]) retire(n int64) {
	b.mu.Lock()
	b.queued--
	b.mu.Unlock()
	b.ended(n)
}

// stretch runs the items of the current stretch. It returns false if the running item was
// answered in the meantime.
func (r *runner[A, R]) stretch(ctx context.Context, w *worker) (ran int, ok bool) {
	b := r.batch
	fn, kind := b.f.fn, b.f.target.kind
	for {
		i, end := unpack(r.word.Load())
		if i == end {
			return ran, true
		}
		value, err := fn(ctx, b.args[i])
		if err != nil {
			if !r.failed(w, judge(ctx, kind, err)) {
				return ran, false
			}
		} else {
			b.values[i] = value // has no reader if the item was answered
			if !r.word.CompareAndSwap(pack(i, end), pack(i+1, end)) && !r.step() {
				w.late()
				return ran, false
			}
			w.count(kind)
		}
		ran++
	}
}

// step moves to the next item. It returns false if the running item was answered.
func (r *runner[A, R]) step() bool {
	for {
		word := r.word.Load()
		if word == lostRunner {
			return false
		}
		i, end := unpack(word)
		if r.word.CompareAndSwap(word, pack(i+1, end)) {
			return true
		}
	}
}

// failed ends the running item with err, and moves to the next one.
func (r *runner[A, R]) failed(w *worker, err error) bool {
	b := r.batch
	b.mu.Lock()
	word := r.word.Load()
	if word != lostRunner { // otherwise the item already has its outcome
		i, _ := unpack(word)
		b.note(i, i+1, err)
	}
	b.mu.Unlock()
	if !r.step() { // then forsake overwrites this outcome
		w.late()
		return false
	}
	w.home.outcome(b.f.target.kind, err)
	return true
}

// fail records the error of items.
func (b *batch[A, R]) fail(from, to int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(from, to, err)
}

// note is fail with mu held.
func (b *batch[A, R]) note(from, to int, err error) {
	if b.errs == nil {
		b.errs = make([]error, len(b.args))
	}
	for i := from; i < to; i++ {
		b.errs[i] = err
	}
}

// drop ends items that never started.
func (b *batch[A, R]) drop(from, to int, err error) {
	if from >= to {
		return
	}
	b.f.target.kind.never.Add(uint64(to - from))
	b.fail(from, to, notStarted(b.f.target.kind, err))
}

// ended counts items that have ended. After the last one, the batch must not be touched.
func (b *batch[A, R]) ended(n int64) {
	out := b.out
	if n > 0 && b.left.Add(-n) == 0 {
		out <- b
	}
}

func (r *runner[A, R]) stale() bool  { return false }
func (r *runner[A, R]) named() *kind { return r.batch.f.target.kind }

// crash ends an item that panicked or called Goexit. Another worker continues with the next
// one.
func (r *runner[A, R]) crash(w *worker, t thrown) {
	p := w.pool
	w.flush()
	if !r.failed(w, t.err(r.batch.f.target.kind.name)) {
		return
	}
	if err := p.shards[0].giveBack([]item{r}); err != nil {
		r.fail(err)
		return
	}
	p.call()
}

// fail removes the runner from the batch and drops its items. If no other runner is left,
// the batch ends.
func (r *runner[A, R]) fail(err error) {
	b := r.batch
	i, end := unpack(r.word.Swap(0))
	b.drop(i, end, err)
	ended := int64(end) - r.start.Load()
	b.mu.Lock()
	b.queued--
	alone := b.queued == 0
	if b.dropped == nil {
		b.dropped = err
	}
	err = b.dropped // the first error, whichever runner is the last
	b.mu.Unlock()
	if alone {
		ended += b.halt(err)
	}
	b.ended(ended)
}

// forsake answers the running item while its body keeps running.
func (r *runner[A, R]) forsake() bool {
	b := r.batch
	for {
		word := r.word.Load()
		i, end := unpack(word)
		if word == lostRunner || i == end {
			return false
		}
		if !r.word.CompareAndSwap(word, lostRunner) {
			continue
		}
		b.fail(i, i+1, taskError(b.f.target.kind.name, bullpen.Canceled, errForsaken))
		b.drop(i+1, end, b.f.target.pool.closedError())
		b.mu.Lock()
		if b.answer == nil {
			b.answer = make([]bool, len(b.args))
		}
		b.answer[i] = true
		b.queued--
		b.mu.Unlock()
		b.ended(int64(end) - r.start.Load() + b.halt(b.f.target.pool.closedError()))
		return true
	}
}
