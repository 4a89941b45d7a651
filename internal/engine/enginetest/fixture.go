package enginetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// Patience bounds every wait of the suite: an engine that takes longer hangs. It is
// shorter than the lease in clauses that are not about leases.
var Patience = 20 * time.Second

// longLease is for clauses in which no lease ends.
const longLease = 5 * time.Minute

var (
	lastNamespace atomic.Uint64 // makes namespaces unique
	lastID        atomic.Uint64 // makes ids unique
)

// firstNamespace keeps the namespaces of several runs on one server apart.
var firstNamespace = time.Now().UnixMicro()

// newID returns a ULID that sorts after the earlier ones.
func newID() string { return fmt.Sprintf("0%025d", lastID.Add(1)) }

// fixture is a store under test and the engine that is open on it.
type fixture struct {
	engine.Engine

	t       *testing.T
	factory Factory
	store   engine.Store
	options engine.Options
}

// open makes a store and opens an engine on it, which is closed at the end of the test.
func (f Factory) open(t *testing.T, o engine.Options) *fixture {
	t.Helper()
	if o.Namespace == "" {
		o.Namespace = fmt.Sprintf("t%d-%d", firstNamespace, lastNamespace.Add(1))
	}
	if o.Lease == 0 {
		o.Lease = longLease
	}
	fx := &fixture{t: t, factory: f, store: f.New(t), options: o}
	fx.Engine = fx.another(o)
	return fx
}

// another opens a further engine on the store. It is closed at the end of the test.
func (fx *fixture) another(o engine.Options) engine.Engine {
	fx.t.Helper()
	ctx, cancel := context.WithTimeout(fx.t.Context(), Patience)
	defer cancel()
	e, err := fx.store.Open(ctx, o)
	if err != nil {
		fx.t.Fatalf("Open = %v, want an engine", err)
	}
	fx.t.Cleanup(func() { fx.shut(e) })
	return e
}

func (fx *fixture) shut(e engine.Engine) {
	fx.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := within(fx.t, "Close", func() error { return e.Close(ctx) }); err != nil {
		fx.t.Errorf("Close = %v, want nil", err)
	}
}

// reopen closes the engine and opens another on the same store.
func (fx *fixture) reopen() {
	fx.t.Helper()
	fx.shut(fx.Engine)
	fx.Engine = fx.another(fx.options)
}

// answer is the result of one put.
type answer struct {
	done chan struct{} // closed by the first call

	mu    sync.Mutex
	calls int    // guarded by mu
	seq   uint64 // guarded by mu
	err   error  // guarded by mu
}

// give puts p without waiting. It must be answered exactly once by the end of the test.
func (fx *fixture) give(p engine.Put) *answer {
	fx.t.Helper()
	return give(fx.t, fx.Engine, p)
}

func give(t *testing.T, e engine.Engine, p engine.Put) *answer {
	t.Helper()
	a := &answer{done: make(chan struct{})}
	e.Put(p, func(seq uint64, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.calls++; a.calls == 1 {
			a.seq, a.err = seq, err
			close(a.done)
		}
	})
	t.Cleanup(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.calls != 1 {
			t.Errorf("Put %s: done was called %d times, want once", p.Subject, a.calls)
		}
	})
	return a
}

// wait returns the answer.
func (a *answer) wait(t *testing.T) (uint64, error) {
	t.Helper()
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case <-a.done:
	case <-timer.C:
		t.Fatalf("no answer to a Put within %v", Patience)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seq, a.err
}

// put puts p, which must be stored.
func (fx *fixture) put(p engine.Put) uint64 {
	fx.t.Helper()
	seq, err := fx.give(p).wait(fx.t)
	if err != nil || seq == 0 {
		fx.t.Fatalf("Put %s = %d, %v, want it stored", p.Subject, seq, err)
	}
	return seq
}

// message puts data on a subject.
func (fx *fixture) message(s engine.Stream, subject, data string) uint64 {
	fx.t.Helper()
	return fx.put(engine.Put{Stream: s, Subject: subject, Data: []byte(data)})
}

var normal = engine.Consumer{Queue: "mail", Priority: "normal"}

// jobs puts n jobs one by one, and returns their subjects.
func (fx *fixture) jobs(c engine.Consumer, n int) []string {
	fx.t.Helper()
	subjects := make([]string, n)
	answers := make([]*answer, n)
	for i := range subjects {
		subjects[i] = engine.JobSubject(c, newID())
		answers[i] = fx.give(engine.Put{Stream: engine.Jobs, Subject: subjects[i], Data: []byte(subjects[i]), New: true})
	}
	for i, a := range answers {
		if _, err := a.wait(fx.t); err != nil {
			fx.t.Fatalf("Put %s = %v, want it stored", subjects[i], err)
		}
	}
	return subjects
}

func (fx *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(fx.t.Context(), Patience)
	fx.t.Cleanup(cancel)
	return ctx
}

// scan returns all messages whose subject matches.
func (fx *fixture) scan(s engine.Stream, pattern string) []engine.Message {
	fx.t.Helper()
	found, err := fx.Scan(fx.ctx(), s, pattern, 0, 100_000)
	if err != nil {
		fx.t.Fatalf("Scan %s = %v", pattern, err)
	}
	return found
}

func (fx *fixture) depth(c engine.Consumer) engine.Depth {
	fx.t.Helper()
	d, err := fx.Depth(fx.ctx(), c)
	if err != nil {
		fx.t.Fatalf("Depth of %v = %v", c, err)
	}
	return d
}

// within runs a call that must return, and ends the test if it does not. The goroutine of
// a call that hangs is lost.
func within(t *testing.T, what string, call func() error) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- call() }() // ends with the call; within waits for it, up to Patience
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case err := <-result:
		return err
	case <-timer.C:
		t.Fatalf("%s did not return within %v", what, Patience)
		return nil
	}
}

// eventually waits until a condition holds, and ends the test if it never does.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(Patience); !holds(); <-look.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, Patience)
		}
	}
}

// until waits until a moment: the test checks that something does not happen before it,
// or happens by itself then.
func until(t *testing.T, moment time.Time) {
	t.Helper()
	timer := time.NewTimer(time.Until(moment))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
