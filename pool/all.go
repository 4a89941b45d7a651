package pool

import (
	"context"
	"fmt"
	"slices"
)

// Failures is the error of several tasks or items: how each of them ended, by its
// index, nil where it was well.
type Failures []error

// Error says how many failed, and how the first did.
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

// Unwrap returns the errors of those that failed, for errors.Is and errors.As.
func (f Failures) Unwrap() []error {
	var all []error
	for i, err := range f {
		if err != nil {
			all = append(all, &IndexError{i, err})
		}
	}
	return all
}

// maxBatch is how many items a batch can count.
const maxBatch = 1<<31 - 1

// All runs the function for each of args, many of them handed over at once where
// they are short, and returns the results in the order of args. The error is a
// [Failures]: each item has its own outcome, also after a panic, Goexit or
// the end of ctx, which keeps what has not started from starting. When the queue
// is full and its rule is not Block, no item may have been accepted; then the
// error says so of all.
//
// Items share a place in the queue, those that turn out longer than about 20
// microseconds soon have one each. About as many as the pool has workers run at
// once; after each handful other tasks that wait get their turn. At a lane, and at
// a place with a timeout or a delay, each item is a task of its own.
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
		s.init(ctx, f.place.pool)
		defer s.end()
	}
	out := make(chan *batch[A, R], 1)
	b := newBatch(f, s, args, out)
	workers := f.place.pool.most()
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

// alone reports whether each item must be a task.
func (f *Func[A, R]) alone() bool {
	return f.place.lane != nil || f.place.timeout > 0 || f.place.delay > 0
}

// noneOf is the error for n items of which none was accepted.
func (f *Func[A, R]) noneOf(n int, err error) Failures {
	return slices.Repeat(Failures{notStarted(f.place.kind, err)}, n)
}

// launch queues the first of n runners as the rule of the queue says, and others
// where there is room. When it returns an error, nothing was accepted.
func (b *batch[A, R]) launch(ctx context.Context, n int) error {
	at := b.f.place
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

// results gives the outcomes of a batch that is over.
func (b *batch[A, R]) results() ([]R, []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answer == nil {
		return b.values, b.errs
	}
	values := make([]R, len(b.values)) // a body runs on that will write there
	for i, answered := range b.answer {
		if !answered {
			values[i] = b.values[i]
		}
	}
	return values, b.errs
}

// allApart is All with a task for each item.
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
		errs = append(errs, notStarted(f.place.kind, context.Cause(ctx)))
	}
	if errs != nil {
		return values, Failures(errs)
	}
	return values, nil
}
