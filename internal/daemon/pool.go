package daemon

import (
	"context"
	"fmt"
	"sync"

	"github.com/bullpen-run/bullpen/internal/daemon/api"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// pool is one pool of the configuration: a queue and, if it has a command, the
// workers that take jobs from it.
type pool struct {
	name string

	mu       sync.Mutex
	settings settings.Pool  // guarded by mu
	now      *generation    // nil without a command; guarded by mu
	min, max int            // bounds of the workers, without helpers; guarded by mu
	waiting  map[string]int // tasks that run here and wait for work that they submitted, with their number of requests; guarded by mu
}

// newPool returns a pool with a generation, which is nil if it has no workers.
func newPool(name string, s settings.Pool, g *generation) *pool {
	p := &pool{name: name, settings: s, now: g, waiting: map[string]int{}}
	if g != nil {
		c := g.workers.Config()
		p.min, p.max = c.Min, c.Max
	}
	return p
}

// generation returns the present workers; nil for none.
func (p *pool) generation() *generation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// config returns the settings in force.
func (p *pool) config() settings.Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings
}

// replace makes next the workers of the pool and returns the former ones.
func (p *pool) replace(s settings.Pool, next *generation) (before *generation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.now, p.settings = p.now, next, s
	if next != nil {
		c := next.workers.Config()
		p.min, p.max = c.Min, c.Max
		_ = p.resize() // without room in the budget there are no helpers; then the next task that waits gets an error
	}
	return before
}

// scale changes the bounds of the workers; a negative number leaves one as it is.
func (p *pool) scale(minimum, maximum int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return fmt.Errorf("%w: the configuration of this daemon has no command for %q", api.ErrQueueOnly, p.name)
	}
	oldMin, oldMax := p.min, p.max
	if minimum >= 0 {
		p.min = minimum
	}
	if maximum >= 0 {
		p.max = maximum
	}
	if p.max < 1 || p.min > p.max {
		err := fmt.Errorf("pool %q cannot have %d to %d workers: use 0 <= min <= max, and max at least 1; to stop the pool, pause it", p.name, p.min, p.max)
		p.min, p.max = oldMin, oldMax
		return err
	}
	if err := p.resize(); err != nil {
		p.min, p.max = oldMin, oldMax
		return err
	}
	return nil
}

// resize applies the present bounds to the workers, including helpers for waiting
// tasks. p.mu is held.
func (p *pool) resize() error {
	least := p.min
	if n := len(p.waiting); n > 0 && p.now.workers.Config().Budgeted {
		// The budget guarantees that at least one worker does not wait.
		least = max(least, min(n+1, p.max+p.helpers()))
	}
	if err := p.now.workers.Resize(least, p.max+p.helpers()); err != nil {
		return err
	}
	p.now.limiter.waiting(len(p.waiting))
	return nil
}

// helpers returns how many workers beyond max are allowed now. p.mu is held.
func (p *pool) helpers() int { return min(len(p.waiting), p.settings.Helpers) }

// wait records that the task parent, which a worker of this pool runs, waits for work
// that it submitted, and gives the pool an extra worker. It fails if all workers
// would then be waiting.
func (p *pool) wait(parent string) (done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil {
		return func() {}, nil // a reload has removed the workers
	}
	if p.waiting[parent]++; p.waiting[parent] > 1 {
		return p.waited(parent), nil
	}
	if n := len(p.waiting); n >= p.max+p.helpers() {
		delete(p.waiting, parent)
		return nil, fmt.Errorf("%w: pool %q has at most %d workers and %d helpers, and %d of its tasks would wait for others: raise helpers or workers.max of the pool, submit to another pool, or do not wait",
			api.ErrNested, p.name, p.max, p.settings.Helpers, n)
	}
	if err := p.resize(); err != nil {
		delete(p.waiting, parent)
		return nil, fmt.Errorf("%w: pool %q needs another worker while the task waits: %w; raise the budget, submit to another pool, or do not wait", api.ErrNested, p.name, err)
	}
	return p.waited(parent), nil
}

// waited returns a function that ends one request of parent.
func (p *pool) waited(parent string) func() {
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.waiting[parent]--; p.waiting[parent] > 0 {
			return
		}
		delete(p.waiting, parent)
		if p.now != nil {
			_ = p.resize() // shrinking always fits the budget; a pool that has ended needs no workers
		}
	})
}

// end ends the workers of the pool.
func (p *pool) end(ctx context.Context, how ending) error {
	g := p.generation()
	if g == nil {
		return nil
	}
	if err := g.end(ctx, how); err != nil {
		return fmt.Errorf("pool %q: %w", p.name, err)
	}
	return nil
}
