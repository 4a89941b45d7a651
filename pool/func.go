package pool

import (
	"context"
	"errors"
	"sync"
)

// errNil is returned for a nil function.
var errNil = errors.New("pool: the function is nil")

// Func is a typed function whose tasks run in a pool. Its argument is passed by value.
// [Func.Call], [Future.Take] and groups allocate no memory per task. All methods are safe
// for concurrent use.
type Func[A, R any] struct {
	target *target
	fn     func(context.Context, A) (R, error)
	free   sync.Pool // of *job[A, R]
	slabs  sync.Pool // of *slab[A, R]
	pace   pace      // of batches
}

// NewFunc makes a typed function of fn at a pool, a lane or a submitter. It panics if fn is
// nil.
//
// The context that fn gets ends when the pool is closed. If the submitter has a timeout, or the
// context passed to Submit can end or has values, the task has its own context (one
// allocation), which follows both; otherwise it uses the worker's.
func NewFunc[A, R any](on Target, fn func(context.Context, A) (R, error)) *Func[A, R] {
	return &Func[A, R]{target: on.at(), fn: fn}
}

// job makes a task that is ready to be queued.
func (f *Func[A, R]) job(ctx context.Context, a A) (*job[A, R], item) {
	j, _ := f.free.Get().(*job[A, R])
	if j == nil {
		j = &job[A, R]{fn: f.fn, home: f}
		j.self, j.target = j, f.target
	}
	j.arg = a
	return j, j.ready(ctx)
}

// ready marks a filled task as queued, and returns the item to queue for it.
func (j *job[A, R]) ready(ctx context.Context) item {
	j.submitted()
	if j.target.timeout == 0 && ctx == context.Background() {
		return j
	}
	j.own = j.target.own(ctx, &j.head)
	return j.own
}

// Submit submits a task. An error means that the task was not accepted; see [Config] for
// the rules for a full queue. If ctx ends, the task is canceled.
func (f *Func[A, R]) Submit(ctx context.Context, a A) (Future[R], error) {
	j, it := f.job(ctx, a)
	gen := genOf(j.word.Load())
	if err := f.target.put(ctx, &j.head, it); err != nil {
		j.withdrawn()
		j.reuse()
		return Future[R]{}, err
	}
	return Future[R]{&j.result, gen}, nil
}

// Call submits a task and waits for its result: Submit and Take in one call. If ctx ends
// first, the task is canceled, and Call returns.
func (f *Func[A, R]) Call(ctx context.Context, a A) (R, error) {
	if f.target.pool.config.Help && f.target.lane == nil && f.target.delay == 0 {
		return f.callHere(ctx, a)
	}
	future, err := f.Submit(ctx, a)
	if err != nil {
		var none R
		return none, err
	}
	r, err := future.Take(ctx)
	if err != nil && ctx.Err() != nil {
		future.Cancel(context.Cause(ctx))
	}
	return r, err
}

// callHere is Call for a pool with Help: the task never enters a queue.
func (f *Func[A, R]) callHere(ctx context.Context, a A) (R, error) {
	var none R
	if ctx != context.Background() {
		if err := f.target.enter(ctx); err != nil {
			return none, err
		}
	}
	j, it := f.job(ctx, a)
	gen := genOf(j.word.Load())
	j.queue = f.target.pool.shards[0]
	if err := f.target.pool.runHere(it); err != nil {
		j.withdrawn()
		j.reuse()
		return none, err
	}
	return j.take(gen, false)
}

// Submit submits fn as one task to a pool, a lane or a submitter. It allocates memory for the
// task; see [NewFunc] to avoid that.
func Submit[R any](ctx context.Context, on Target, fn func(context.Context) (R, error)) (Future[R], error) {
	if fn == nil {
		return Future[R]{}, errNil
	}
	j := &job[func(context.Context) (R, error), R]{fn: callIt[R], arg: fn}
	j.self, j.target = j, on.at()
	if err := j.target.put(ctx, &j.head, j.ready(ctx)); err != nil {
		return Future[R]{}, err
	}
	return Future[R]{&j.result, 0}, nil
}

func callIt[R any](ctx context.Context, fn func(context.Context) (R, error)) (R, error) {
	return fn(ctx)
}
