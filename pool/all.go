package pool

import (
	"context"
	"fmt"
	"slices"
)

// Failures is the error of several tasks or items. It holds the error of each, by its
// index; nil means success.
type Failures []error

// Error returns how many failed, and the first failure.
func (f Failures) Error() string {
	first := (*IndexError)(nil)
	n := 0
	for i, err := range f {
		if err == nil {
			continue
		}
		if n++; first == nil {
			first = &IndexError{i, err}
		}
	}
	if n < 2 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d of %d tasks failed, the first was %v", n, len(f), first)
}

// Unwrap returns the errors of the failed tasks, for errors.Is and errors.As.
func (f Failures) Unwrap() []error {
	var all []error
	for i, err := range f {
		if err != nil {
			all = append(all, &IndexError{i, err})
		}
	}
	return all
}

// maxBatch is the maximum number of items in a batch.
const maxBatch = 1<<31 - 1

// All runs the function for each of args and returns the results in the order of args.
// Short items are submitted many at a time. The error is a [Failures]. Each item has its
// own outcome, even after a panic or Goexit of another one. If ctx ends, items that have
// not started do not start. If the queue is full and its rule is not Block, it may happen
// that no item is accepted; then all of them have that error.
//
// Items share a place in the queue; items longer than about 20 microseconds soon get one
// each. About as many items as the pool has workers run at a time, and other waiting tasks
// get their turn after every few. At a lane, and at a submitter with a timeout or a delay, each
// item is a task of its own.
func (f *Func[A, R]) All(ctx context.Context, args []A) ([]R, error) {
	if len(args) == 0 {
		return []R{}, nil
	}
	if f.alone() || len(args) > maxBatch {
		return f.allApart(ctx, args)
	}
	if err := ctx.Err(); err != nil {
		return make([]R, len(args)), f.noneOf(len(args), context.Cause(ctx))
	}
	var s *span
	if ctx != context.Background() {
		s = &span{}
		s.init(ctx, f.target.pool)
		defer s.end()
	}
	out := make(chan *batch[A, R], 1)
	b := newBatch(f, s, args, out)
	workers := f.target.pool.most()
	b.most = (len(args) + 2*workers - 1) / (2 * workers) // so that all have something
	if err := b.launch(ctx, min(workers, (len(args)+b.most-1)/b.most)); err != nil {
		return make([]R, len(args)), f.noneOf(len(args), err)
	}
	one := []*batch[A, R]{b}
	f.wait(ctx, out, func() []*batch[A, R] { return one }, func() { b.stop(context.Cause(ctx)) })
	values, errs := b.results()
	if errs != nil {
		return values, Failures(errs)
	}
	return values, nil
}

// alone reports whether each item must be a task of its own.
func (f *Func[A, R]) alone() bool {
	return f.target.lane != nil || f.target.timeout > 0 || f.target.delay > 0
}

// noneOf returns the error for n items, none of which was accepted.
func (f *Func[A, R]) noneOf(n int, err error) Failures {
	return slices.Repeat(Failures{notStarted(f.target.kind, err)}, n)
}

// launch queues the first of n runners according to the queue's overflow rule, and the
// others if there is room. If it returns an error, no item was accepted.
func (b *batch[A, R]) launch(ctx context.Context, n int) error {
	at := b.f.target
	if w := at.pool.workerOf(ctx); w != nil {
		w.waits()
	}
	r := b.hire()
	if q := at.queueOf(); !at.try(q, r) {
		if err := at.insist(ctx, q, r); err != nil {
			return err
		}
	}
	for n--; n > 0 && b.send(); n-- {
	}
	if at.pool.config.Help && n >= 0 {
		own := b.hire()
		if err := at.pool.runHere(own); err != nil {
			own.fail(err)
		}
	}
	return nil
}

// results returns the outcomes of a batch that is over.
func (b *batch[A, R]) results() ([]R, []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answer == nil {
		return b.values, b.errs
	}
	values := make([]R, len(b.values)) // a body that keeps running will write to b.values
	for i, answered := range b.answer {
		if !answered {
			values[i] = b.values[i]
		}
	}
	return values, b.errs
}

// allApart is All with one task for each item.
func (f *Func[A, R]) allApart(ctx context.Context, args []A) ([]R, error) {
	values := make([]R, 0, len(args))
	var errs []error
	for value, err := range f.Map(ctx, slices.Values(args)) {
		if err != nil && errs == nil {
			errs = make([]error, len(values), len(args))
		}
		if errs != nil {
			errs = append(errs, err)
		}
		values = append(values, value)
	}
	for len(values) < len(args) { // ctx has ended
		if errs == nil {
			errs = make([]error, len(values), len(args))
		}
		var none R
		values = append(values, none)
		errs = append(errs, notStarted(f.target.kind, context.Cause(ctx)))
	}
	if errs != nil {
		return values, Failures(errs)
	}
	return values, nil
}
