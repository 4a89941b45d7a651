// Package memory is an engine in the memory of this process, for the tests of
// the queue and of programs that use it. It keeps all that package engine asks
// for, to the moment: leases, delays and schedules end when they are due, by the
// clock that package time reads, so that it works in a bubble of testing/synctest.
// Nothing outlives the process.
//
// A [Store] outlives its engines: closing all of them and opening another is a
// restart. A job that was handed out and not answered comes again when its lease
// has passed, as with the real engine, not at once. Time goes on while no engine
// is open: what fell due meanwhile happens when the next one is opened.
//
// [Store.Inject] lets operations fail, be late, or lose their answer.
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

// DefaultLease is the lease when Options name none.
const DefaultLease = 30 * time.Second

// Store is where jobs are kept while engines come and go. The zero value is
// empty and ready. All methods are safe for concurrent use.
type Store struct {
	// Shared is what engines say when they are asked whether other nodes may be
	// on the same store. It is set before the first engine is opened.
	Shared bool

	faults atomic.Pointer[func(Operation) Fault]

	mu     sync.Mutex
	spaces map[string]*space // by namespace; +checklocks:mu
	err    error             // why the store has failed; +checklocks:mu
	failed chan struct{}     // closed when it has; made by the first engine; +checklocks:mu
}

// Open opens an engine on the store of its own: nobody else can see it, and it
// is gone when the engine is.
func Open(o engine.Options) (*Engine, error) { return new(Store).open(o) }

// Open opens an engine on s. Bounds and lease are from then on those of o, for
// all engines of the same namespace.
func (s *Store) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open the store: %w", context.Cause(ctx))
	}
	e, err := s.open(o)
	if err != nil {
		return nil, err // not e, which would be an interface that holds nil
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

// takeBack puts what earlier engines were handed in line again: nobody can have it
// any more where an engine is alone with its store. The store is locked.
func (sp *space) takeBack() {
	had := slices.DeleteFunc(slices.Clone(sp.agenda), func(r *record) bool { return r.state.State() != taken })
	slices.SortFunc(had, func(a, b *record) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, r := range had {
		r.consumer.giveBack(r, taken)
	}
}

// Fail lets the store fail for good, as a disk does: Failed of all engines is
// closed, and all that is asked of them from then on gives an error that wraps
// engine.ErrFailed and cause.
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

// Lose takes a message out of a stream as a damaged disk does: nothing else
// learns of it.
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

// check finds all faults of o.
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
			faults = append(faults, fmt.Errorf("%s is negative: leave it 0 for no bound, or the usual one", bound.name))
		}
	}
	return errors.Join(faults...)
}
