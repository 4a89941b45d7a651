package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
)

// StateConfig says what instances of S are like: interpreters, connections,
// codecs, whatever is costly to make and serves one task at a time.
type StateConfig[S any] struct {
	// Name names the lane in which the tasks wait; it must be the only one of its
	// name in the pool.
	Name string
	// Limit is the most instances; 0 means the pool's Max.
	Limit int
	// LimitEnv names an environment variable that overrides Limit when it is set.
	LimitEnv string
	// Queue is how many tasks may wait for an instance, and Overflow what happens
	// then; see Config.
	Queue    int
	Overflow Overflow
	// New makes an instance, in the worker of the first task that needs one more.
	// Its logger carries the ids of the task that the instance serves at the time,
	// and none in between.
	New func(ctx context.Context, log *slog.Logger) (S, error)
	// Close ends an instance; nil means that nothing is to be done.
	Close func(S)
	// Checkout prepares an instance for a task, and Return cleans it up after;
	// an error of either ends the instance. They may be nil.
	Checkout func(context.Context, S) error
	Return   func(S) error
	// Tasks is after how many tasks an instance is replaced; 0 is never. One whose
	// task panicked or overran its time is always replaced.
	Tasks int
	// Idle is how long an instance may be idle; 0 means the pool's Idle.
	Idle time.Duration
	// Attrs gives the ids that the logger carries, from the context of the task.
	Attrs func(context.Context) []slog.Attr
	// Logger is what the instances' loggers write to; nil means the pool's, or
	// nowhere.
	Logger *slog.Logger
}

// States are the instances of one kind. They are made one by one as tasks need
// them, up to the limit, and the one that was used last is used first. Only the
// pool's dispatcher gives them out: it starts no task of theirs while all are in use,
// so that no task holds a worker to wait for one. Methods are safe for concurrent
// use. The pool closes them when it ends.
type States[S any] struct {
	config StateConfig[S]
	pool   *Pool
	lane   *Lane
	logger *slog.Logger

	mu    sync.Mutex
	idle  []*instance[S] // the last one was used last; mu guards what follows
	inUse int
	made  uint64
	timer *time.Timer // for the one idle longest
	ended bool
}

type instance[S any] struct {
	state S
	tasks int
	since time.Time
	ids   *requestIDs
}

// NewStates makes the place for instances in p; none is made yet. An error names
// all faults of c.
func NewStates[S any](p *Pool, c StateConfig[S]) (*States[S], error) {
	var errs []error
	if c.New == nil {
		errs = append(errs, errors.New("New is nil: it makes the instances"))
	}
	for name, n := range map[string]int{"Limit": c.Limit, "Tasks": c.Tasks, "Idle": int(c.Idle)} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("%s is negative: use a positive value, or 0 for the default", name))
		}
	}
	if text := os.Getenv(c.LimitEnv); c.LimitEnv != "" && text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			errs = append(errs, fmt.Errorf("environment variable %s is %q: use a positive number of instances", c.LimitEnv, text))
		}
		c.Limit = n
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("pool %q: states %q: %w", p.config.Name, c.Name, err)
	}
	if c.Idle == 0 {
		c.Idle = p.config.Idle
	}
	lane, err := p.Lane(LaneConfig{Name: c.Name, Limit: c.Limit, Queue: c.Queue, Overflow: c.Overflow})
	if err != nil {
		return nil, err
	}
	s := &States[S]{config: c, pool: p, lane: lane, logger: c.Logger}
	if s.logger == nil {
		s.logger = p.config.Logger
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	p.atEnd(s.close)
	return s, nil
}

// Lane returns the lane in which the tasks wait.
func (s *States[S]) Lane() *Lane { return s.lane }

// StateStats is a snapshot of instances.
type StateStats struct {
	Idle, InUse int
	Made        uint64
}

// Stats returns a snapshot.
func (s *States[S]) Stats() StateStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return StateStats{Idle: len(s.idle), InUse: s.inUse, Made: s.made}
}

// NewFuncWithState makes a typed function whose tasks get an instance to themselves.
// Several functions may share instances.
func NewFuncWithState[S, A, R any](s *States[S], fn func(context.Context, S, A) (R, error)) *Func[A, R] {
	return NewFunc(s.lane, func(ctx context.Context, a A) (R, error) {
		in, err := s.take(ctx)
		if err != nil {
			var none R
			return none, err
		}
		sound := false
		defer func() { s.put(in, sound) }()
		r, err := fn(ctx, in.state, a)
		sound = !errors.Is(ctx.Err(), context.DeadlineExceeded)
		return r, err
	})
}

// take gives out an instance. There is one, or room for one: the lane lets no more
// tasks run.
func (s *States[S]) take(ctx context.Context) (*instance[S], error) {
	s.mu.Lock()
	s.inUse++
	var in *instance[S]
	if n := len(s.idle) - 1; n >= 0 {
		in = s.idle[n]
		s.idle[n] = nil
		s.idle = s.idle[:n]
	}
	s.mu.Unlock()
	given := false
	defer func() { // also when the user's code panics
		if !given {
			s.drop(in)
		}
	}()
	if in == nil {
		ids := &requestIDs{}
		fresh := &instance[S]{ids: ids}
		s.tag(ctx, fresh)
		state, err := s.config.New(ctx, slog.New(requestHandler{s.logger.Handler(), ids}))
		if err != nil {
			return nil, fmt.Errorf("%w: instance of %q: %w", bullpen.ErrStart, s.config.Name, err)
		}
		fresh.state, in = state, fresh
		s.mu.Lock()
		s.made++
		s.mu.Unlock()
	}
	s.tag(ctx, in)
	if s.config.Checkout != nil {
		if err := s.config.Checkout(ctx, in.state); err != nil {
			return nil, fmt.Errorf("checkout of an instance of %q: %w", s.config.Name, err)
		}
	}
	in.tasks++
	given = true
	return in, nil
}

func (s *States[S]) tag(ctx context.Context, in *instance[S]) {
	if s.config.Attrs != nil {
		attrs := s.config.Attrs(ctx)
		in.ids.attrs.Store(&attrs)
	}
}

// put takes an instance back, or ends it where it is not sound, worn out, or no
// more needed.
func (s *States[S]) put(in *instance[S], sound bool) {
	kept := false
	defer func() { // also when the user's code panics
		if !kept {
			in.ids.attrs.Store(nil)
			s.drop(in)
		}
	}()
	if !sound || s.config.Return != nil && s.config.Return(in.state) != nil {
		return
	}
	in.ids.attrs.Store(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.config.Tasks > 0 && in.tasks >= s.config.Tasks {
		return
	}
	kept = true
	s.inUse--
	in.since = time.Now()
	s.idle = append(s.idle, in)
	if s.timer == nil {
		s.timer = time.AfterFunc(s.config.Idle, s.expire) // a goroutine that ends at once; close stops it
	} else if len(s.idle) == 1 {
		s.timer.Reset(s.config.Idle)
	}
}

// drop ends an instance that was in use; nil where making it failed.
func (s *States[S]) drop(in *instance[S]) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inUse--
	}()
	if in != nil && s.config.Close != nil {
		s.config.Close(in.state)
	}
}

// expire ends instances that have been idle too long.
func (s *States[S]) expire() {
	s.mu.Lock()
	now := time.Now()
	n := 0
	for n < len(s.idle) && now.Sub(s.idle[n].since) >= s.config.Idle {
		n++
	}
	old := slices.Clone(s.idle[:n])
	s.idle = slices.Delete(s.idle, 0, n)
	if len(s.idle) > 0 && !s.ended {
		s.timer.Reset(s.config.Idle - now.Sub(s.idle[0].since))
	}
	s.mu.Unlock()
	s.end(old)
}

func (s *States[S]) end(instances []*instance[S]) {
	for _, in := range instances {
		if s.config.Close != nil {
			s.config.Close(in.state)
		}
	}
}

// close ends all idle instances when the pool has ended. One that a stuck body
// still uses ends when that returns.
func (s *States[S]) close() {
	s.mu.Lock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	s.end(idle)
}
