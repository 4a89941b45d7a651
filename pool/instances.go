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

// StateConfig configures instances of S: interpreters, connections, codecs, or anything
// else that is costly to make and serves one task at a time.
type StateConfig[S any] struct {
	// Name is the name of the lane in which the tasks wait. It must be unique in the pool.
	Name string
	// Limit is the maximum number of instances; 0 means the pool's Max.
	Limit int
	// LimitEnv is the name of an environment variable that overrides Limit if it is set.
	LimitEnv string
	// Queue is how many tasks may wait for an instance, and Overflow the rule for a full
	// queue; see LaneConfig.
	Queue    int
	Overflow Overflow
	// New makes an instance, in the worker of the task that needs it. The logger adds the
	// IDs of the task that the instance currently serves, and none between tasks.
	New func(ctx context.Context, log *slog.Logger) (S, error)
	// Close closes an instance. It may be nil.
	Close func(S)
	// Checkout prepares an instance for a task, and Return cleans it up afterwards. If one
	// of them fails, the instance is closed. They may be nil.
	Checkout func(context.Context, S) error
	Return   func(S) error
	// Tasks is the number of tasks after which an instance is replaced; 0 means never. An
	// instance whose task panicked or overran is always replaced.
	Tasks int
	// Idle is how long an instance may be idle; 0 means the pool's Idle.
	Idle time.Duration
	// Attrs returns the IDs that the logger adds, from the context of the task.
	Attrs func(context.Context) []slog.Attr
	// Logger is the logger behind those of the instances; nil means the pool's, or none.
	Logger *slog.Logger
}

// States are the instances of one kind. They are made one by one as tasks need them, up to
// the limit, and the most recently used one is reused first. The pool's dispatcher starts
// no task of theirs while all instances are in use, so no task occupies a worker while it
// waits for an instance. The methods are safe for concurrent use. The pool closes the
// instances when it ends.
type States[S any] struct {
	config StateConfig[S]
	pool   *Pool
	lane   *Lane
	logger *slog.Logger

	mu    sync.Mutex
	idle  []*instance[S] // the most recently used one is last; mu guards the fields below
	inUse int
	made  uint64
	timer *time.Timer // expires the one that was idle longest
	ended bool
}

type instance[S any] struct {
	state S
	tasks int
	since time.Time
	ids   *requestIDs
}

// NewStates prepares instances in p, without making one yet. An error lists all faults of
// c.
func NewStates[S any](p *Pool, c StateConfig[S]) (*States[S], error) {
	var errs []error
	if c.New == nil {
		errs = append(errs, errors.New("New is nil: set it to a function that makes instances"))
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

// StateStats is a snapshot of the instances.
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

// NewFuncWithState makes a typed function each of whose tasks uses one instance
// exclusively. Several functions may share instances.
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

// take takes an idle instance or makes one. The limit of the lane ensures that one is
// available.
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
	defer func() { // even if the user's code panics
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

// put returns an instance, or closes it if it is not sound, has served enough tasks, or is
// no longer needed.
func (s *States[S]) put(in *instance[S], sound bool) {
	kept := false
	defer func() { // even if the user's code panics
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

// drop closes an instance that was in use. in is nil if making it failed.
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

// expire closes instances that have been idle too long.
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

// close closes all idle instances when the pool has ended. An instance in use by a stuck
// body is closed when the body returns.
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
