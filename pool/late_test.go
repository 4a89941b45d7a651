package pool

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingStartsAfterClose holds up those who have found a place for a worker until
// a Close is under way: no worker starts, and no task runs, after it has returned.
func TestNothingStartsAfterClose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		come func(p *Pool, body func()) error
	}{
		{"with a task", func(p *Pool, body func()) error { return p.Go(bg, body) }},
		{"for a task that is gone", func(p *Pool, _ func()) error { p.callOne(); return nil }},
		{"to be more", func(p *Pool, _ func()) error { return p.Resize(1, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for range 100 {
				closeBehind(t, c.come)
			}
		})
	}
}

// closeBehind closes a pool while a goroutine that comes has its place in the count of
// workers, and waits for the lock.
func closeBehind(t *testing.T, come func(p *Pool, body func()) error) {
	t.Helper()
	p, err := New(Config{Max: 1})
	if err != nil {
		t.Fatal(err)
	}
	var closed, late atomic.Bool
	came := make(chan error, 1)
	p.mu.Lock()
	go func() { // the test waits for what it says
		came <- come(p, func() { late.Store(closed.Load()) })
	}()
	eventually(t, "it has its place", func() bool { return p.counts().size() == 1 })
	p.mu.Unlock()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	closed.Store(true)
	hired := p.everHired()
	if err := <-came; err != nil && hired > 0 {
		t.Errorf("a worker started for a task that was refused: %v", err)
	}
	if n := p.everHired(); n != hired {
		t.Errorf("%d workers started after Close had returned", n-hired)
	}
	eventually(t, "the workers have gone", func() bool { return p.counts() == 0 })
	if late.Load() {
		t.Error("a task ran after Close had returned")
	}
}

// TestNoTaskForWhoWasGivenUp: a worker that is about to get a task when Close gives it
// up does not run it, and leaves.
func TestNoTaskForWhoWasGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{Min: 1, Max: 1, CloseGrace: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.workerCounts.Add(^uint64(oneParked - 1)) // as hand does, which is held up then
		if err := p.Close(); err == nil {
			t.Error("Close does not name the worker for which it has not waited")
		}
		if p.handParked(closure(func() { t.Error("a task ran after Close had returned") })) {
			t.Error("a task was accepted after Close had returned")
		}
		synctest.Wait()
		if s := p.Stats(); s.Size != 0 || s.Stuck != 0 {
			t.Errorf("%d workers and %d stuck bodies are left, want none", s.Size, s.Stuck)
		}
	})
}

func (p *Pool) everHired() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hired
}

// TestEndsAgainstCallers has ways to bring a task against ways to end: each accepted
// task has ended when the end has returned, and none runs after.
func TestEndsAgainstCallers(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*Pool) error{
		"drain": func(p *Pool) error { return p.Drain(bg) },
		"stop":  func(p *Pool) error { return p.Stop(bg) },
		"close": (*Pool).Close,
	}
	type body = func(context.Context) (int, error)
	for _, way := range []struct {
		name   string
		rounds int
		come   func(*Pool, body) (Future[int], error)
	}{
		{"submit", 150, func(p *Pool, fn body) (Future[int], error) { return Submit(bg, p, fn) }},
		{"delay", 100, func(p *Pool, fn body) (Future[int], error) {
			return Submit(bg, p.With(Options{Delay: time.Microsecond}), fn)
		}},
		{"help", 20, func(p *Pool, fn body) (Future[int], error) {
			future, err := Submit(bg, p, fn)
			if err == nil {
				_, _ = future.Wait(bg) // the test looks at the future again
			}
			return future, err
		}},
	} {
		for name, end := range ends {
			t.Run(name+" against "+way.name, func(t *testing.T) {
				t.Parallel()
				for range way.rounds {
					endAgainst(t, end, way.come)
				}
			})
		}
	}
}

// endAgainst ends a pool to which four goroutines bring tasks until it takes no more.
func endAgainst(t *testing.T, end func(*Pool) error, come func(*Pool, func(context.Context) (int, error)) (Future[int], error)) {
	t.Helper()
	p, err := New(Config{Max: 2, Queue: 64, Help: true})
	if err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	body := func(context.Context) (int, error) {
		if over.Load() {
			t.Error("a task runs after the end has returned")
		}
		return 0, nil
	}
	var begun, callers sync.WaitGroup
	accepted := make([][]Future[int], 4)
	for i := range accepted {
		begun.Add(1)
		callers.Go(func() {
			future, err := come(p, body)
			begun.Done()
			for err == nil {
				accepted[i] = append(accepted[i], future)
				future, err = come(p, body)
			}
		})
	}
	begun.Wait()
	if err := end(p); err != nil {
		t.Error(err)
	}
	over.Store(true)
	callers.Wait()
	for _, futures := range accepted {
		for _, future := range futures {
			select {
			case <-future.Done():
			default:
				t.Error("an accepted task has no outcome after the end")
			}
		}
	}
}
