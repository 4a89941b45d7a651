// Package memory is an engine in the memory of this process, for tests of the queue and
// of programs that use it. It implements everything in package engine exactly on time:
// leases, delays and schedules end when they are due, by the clock of package time, so it
// works in a bubble of testing/synctest. Nothing outlives the process.
//
// A [Store] outlives its engines: closing all of them and opening another one is a
// restart. A job that was handed out and not answered comes again after its lease, not at
// once, as with the real engine. Time passes while no engine is open: what fell due
// meanwhile happens when the next one is opened.
//
// [Store.Inject] makes operations fail, be late, or lose their answer.
package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// DefaultLease is the lease if Options does not set one.
const DefaultLease = 30 * time.Second

// Store keeps jobs while engines are opened and closed. The zero value is empty and
// ready. All methods are safe for concurrent use.
type Store struct {
	// Shared is the result of the engines' method Shared. It is set before the first
	// engine is opened.
	Shared bool

	faults atomic.Pointer[func(Operation) Fault]

	mu     sync.Mutex
	spaces map[string]*space // by namespace; guarded by mu
	err    error             // why the store has failed; guarded by mu
	failed chan struct{}     // closed when the store has failed; made by the first engine; guarded by mu
}

// Open opens an engine on a new store, which no other engine can use and which goes away
// with the engine.
func Open(o engine.Options) (*Engine, error) { return new(Store).open(o) }

// Open opens an engine on s. From then on the bounds and the lease of o hold for all
// engines of the same namespace.
func (s *Store) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open the store: %w", context.Cause(ctx))
	}
	e, err := s.open(o)
	if err != nil {
		return nil, err // not e, which would be a non-nil interface
	}
	return e, nil
}

func (s *Store) open(o engine.Options) (*Engine, error) {
	if err := check(o); err != nil {
		return nil, err
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = make(chan struct{})
	}
	if s.err != nil {
		return nil, s.err
	}
	sp := s.spaces[o.Namespace]
	if sp == nil {
		sp = newSpace(s)
		if s.spaces == nil {
			s.spaces = map[string]*space{}
		}
		s.spaces[o.Namespace] = sp
	}
	sp.options = o
	sp.enforce()
	if !s.Shared && sp.engines == 0 {
		sp.takeBack()
	}
	e := &Engine{
		store: s, space: sp, failed: s.failed, ended: make(chan struct{}),
		opened: sp.streams[engine.Jobs].last,
		takers: map[*taker]struct{}{}, late: map[*late]struct{}{},
	}
	sp.engines++
	sp.arm()
	return e, nil
}

// takeBack queues again what was handed out to earlier engines: if the store is not
// shared, no engine can have it now. Store.mu is held.
func (sp *space) takeBack() {
	had := slices.DeleteFunc(slices.Clone(sp.agenda), func(r *record) bool { return r.state.State() != taken })
	slices.SortFunc(had, func(a, b *record) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, r := range had {
		r.consumer.giveBack(r, taken)
	}
}

// Fail makes the store fail for good, like a disk: Failed of all engines is closed, and
// all later calls return an error that wraps engine.ErrFailed and cause.
func (s *Store) Fail(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = fmt.Errorf("%w: %w; start the program again", engine.ErrFailed, cause)
	if s.failed == nil {
		s.failed = make(chan struct{})
	}
	close(s.failed)
	for _, sp := range s.spaces {
		for _, c := range sp.consumers {
			c.wake()
		}
	}
}

// Lose removes a message from a stream without any notice, like a damaged disk.
func (s *Store) Lose(namespace string, stream engine.Stream, seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spaces[namespace]
	if sp == nil || int(stream) >= len(sp.streams) {
		return false
	}
	r := sp.streams[stream].find(seq)
	if r != nil {
		sp.remove(r)
	}
	return r != nil
}

// check reports all faults of o.
func check(o engine.Options) error {
	var faults []error
	if strings.Trim(o.Namespace, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		faults = append(faults, fmt.Errorf("Namespace %q: use lower-case letters, digits, \"-\" and \"_\" only", o.Namespace))
	}
	for _, bound := range []struct {
		name  string
		value int64
	}{
		{"Lease", int64(o.Lease)}, {"Jobs", o.Jobs},
		{"Outcomes", o.Outcomes}, {"OutcomeCount", o.OutcomeCount}, {"OutcomeAge", int64(o.OutcomeAge)},
		{"Dead", o.Dead}, {"DeadAge", int64(o.DeadAge)},
	} {
		if bound.value < 0 {
			faults = append(faults, fmt.Errorf("%s is negative: use 0 for the default, or a positive value", bound.name))
		}
	}
	return errors.Join(faults...)
}
