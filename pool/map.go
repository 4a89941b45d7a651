package pool

import (
	"context"
	"iter"
	"time"
)

// Ended is an item of [Func.AsCompleted] and its outcome.
type Ended[A, R any] struct {
	// Index counts the items of the input, from 0.
	Index int
	// Arg is the item.
	Arg A
	// Value is the result, or zero if Err is not nil.
	Value R
	// Err is the error of the item, or nil.
	Err error
}

// mostOfMap is the maximum number of items that Map submits at once.
const mostOfMap = 256

// Map runs the function for each item of seq and yields the results in the order of seq.
// Short items are submitted in batches, as with [Func.All], and each has its own outcome.
// Map reads seq in the goroutine of the loop, ahead of the results by up to two batches per
// worker, with up to 256 items each. seq must not wait for results. Map yields a result
// when seq has produced a further item or has ended.
//
// If the loop ends early, Map cancels the rest and waits for running items. If ctx ends,
// Map stops reading seq, and items that have not started do not start. Each item that was
// read has an outcome, and at least one of them has the cause of ctx. If seq panics, the
// panic continues after everything has been stopped.
func (f *Func[A, R]) Map(ctx context.Context, seq iter.Seq[A]) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		f.stream(ctx, seq, &stream[A, R]{pair: yield})
	}
}

// AsCompleted is like [Func.Map], but yields the items in the order in which they end.
func (f *Func[A, R]) AsCompleted(ctx context.Context, seq iter.Seq[A]) iter.Seq[Ended[A, R]] {
	return func(yield func(Ended[A, R]) bool) { f.stream(ctx, seq, &stream[A, R]{yield: yield}) }
}

// stream is one call of Map or AsCompleted.
type stream[A, R any] struct {
	f       *Func[A, R]
	ctx     context.Context //nolint:containedctx // it lives as long as the call
	span    span
	pair    func(R, error) bool    // yields in order; nil for AsCompleted
	yield   func(Ended[A, R]) bool // yields as completed; nil for Map
	out     chan *batch[A, R]
	window  int           // maximum number of batches submitted at a time
	going   []*part[A, R] // these batches, in input order
	read    int           // items read from the input
	stopped bool          // the loop has ended
	filling time.Time     // when filling the next batch began
}

// part is a batch with its position in the input.
type part[A, R any] struct {
	batch *batch[A, R]
	base  int
	over  bool
}

func (f *Func[A, R]) stream(ctx context.Context, seq iter.Seq[A], s *stream[A, R]) {
	s.f, s.ctx, s.window = f, ctx, 2*f.target.pool.most()
	ends := ctx.Done() != nil
	s.out = make(chan *batch[A, R], s.window)
	s.span.init(ctx, f.target.pool)
	defer s.end() // even if the input or the loop panics
	s.filling = time.Now()
	size := s.size(0)
	var args []A
	for a := range seq {
		if args == nil {
			args = make([]A, 0, size)
		}
		args = append(args, a)
		if len(args) < size && (!ends || ctx.Err() == nil) {
			continue
		}
		n := len(args)
		size = s.size(n)
		s.bring(args)
		args = nil
		if s.stopped || ctx.Err() != nil {
			break
		}
		s.filling = time.Now()
	}
	if len(args) > 0 {
		s.bring(args)
	}
	for !s.stopped && len(s.going) > 0 {
		s.next()
	}
}

// size returns the size of the next batch: as many items as take one handful to run, and no
// longer to read. Reading the last batch gave n items.
func (s *stream[A, R]) size(n int) int {
	if s.f.alone() {
		return 1
	}
	size := s.f.pace.items(mostOfMap)
	if n > 0 {
		took := time.Since(s.filling) / time.Duration(n)
		size = max(1, min(size, int(handful/max(took, 1))))
	}
	return size
}

// bring submits a batch, after waiting for room, and yields what has ended.
func (s *stream[A, R]) bring(args []A) {
	for len(s.going) >= s.window {
		if !s.next() {
			return
		}
	}
	b := newBatch(s.f, &s.span, args, s.out)
	s.going = append(s.going, &part[A, R]{batch: b, base: s.read})
	s.read += len(args)
	switch {
	case s.ctx.Err() != nil:
		b.refuse(context.Cause(s.ctx))
	case s.f.alone():
		b.launchApart(s.span.Context)
	default:
		if err := b.launch(s.span.Context, 1); err != nil {
			b.refuse(err)
		}
	}
	for !s.stopped {
		select {
		case b := <-s.out:
			s.give(b)
			continue
		default:
		}
		break
	}
}

// next waits until a batch is over, and yields what it can. It returns false if the loop
// has ended.
func (s *stream[A, R]) next() bool {
	s.give(s.f.wait(s.ctx, s.out, s.batches, s.stop))
	return !s.stopped
}

// give marks a batch as over and yields its items, or, in order, the items of all batches
// that are next and over.
func (s *stream[A, R]) give(b *batch[A, R]) {
	for i, p := range s.going {
		if p.batch != b {
			continue
		}
		p.over = true
		if s.pair == nil {
			s.going = append(s.going[:i], s.going[i+1:]...)
			s.deliver(p)
			return
		}
	}
	for !s.stopped && len(s.going) > 0 && s.going[0].over {
		p := s.going[0]
		s.going = s.going[1:]
		s.deliver(p)
	}
}

func (s *stream[A, R]) deliver(p *part[A, R]) {
	values, errs := p.batch.results()
	for i, value := range values {
		if s.pair != nil {
			var err error
			if errs != nil {
				err = errs[i]
			}
			if !s.pair(value, err) {
				s.stopped = true
				return
			}
			continue
		}
		e := Ended[A, R]{Index: p.base + i, Arg: p.batch.args[i], Value: value}
		if errs != nil {
			e.Err = errs[i]
		}
		if !s.yield(e) {
			s.stopped = true
			return
		}
	}
}

func (s *stream[A, R]) batches() []*batch[A, R] {
	all := make([]*batch[A, R], len(s.going))
	for i, p := range s.going {
		all[i] = p.batch
	}
	return all
}

// stop cancels the items that have not started, and the contexts of running ones.
func (s *stream[A, R]) stop() {
	cause := context.Cause(s.ctx)
	if cause == nil {
		cause = context.Canceled // the loop has ended
	}
	s.span.cancel(cause)
	for _, p := range s.going {
		if !p.over {
			p.batch.stop(cause)
		}
	}
}

// end stops the remaining batches, and waits for running items.
func (s *stream[A, R]) end() {
	s.stop()
	for _, p := range s.going {
		for !p.over {
			b := s.f.wait(s.ctx, s.out, s.batches, func() {})
			for _, other := range s.going {
				other.over = other.over || other.batch == b
			}
		}
	}
	s.span.end()
}

// refuse ends a batch that was not accepted.
func (b *batch[A, R]) refuse(err error) {
	b.fail(0, len(b.args), notStarted(b.f.target.kind, err))
	b.ended(int64(len(b.args)))
}

// launchApart submits the only item of the batch as a task of its own.
func (b *batch[A, R]) launchApart(ctx context.Context) {
	b.cursor.Store(1)
	task, err := b.f.Submit(ctx, b.args[0])
	if err != nil {
		b.refuse(err)
		return
	}
	b.task = task
	task.task.keep(task.gen)
	task.task.then(func() {
		value, err := task.task.read()
		if err != nil {
			b.fail(0, 1, err)
		}
		b.values[0] = value
		b.ended(1)
	})
}
