package pool

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

var soakTasks = flag.Int("soak", 0, "tasks of TestSoak; 0 means 20,000, or 1,000,000 with BULLPEN_LONG=1")

// seed is BULLPEN_SEED, or a new one, which a failing test prints.
func seed(t *testing.T) uint64 {
	t.Helper()
	s, err := strconv.ParseUint(os.Getenv("BULLPEN_SEED"), 10, 64)
	if err != nil {
		s = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("run again with BULLPEN_SEED=%d", s)
		}
	})
	return s
}

// soak is what goes on in TestSoak: every task that was accepted is on record, and
// each must have exactly one outcome.
type soak struct {
	t                        *testing.T
	accepted, ended, refused atomic.Int64
	closures, ran            atomic.Int64
	outcomes                 [bullpen.OutcomeCount + 1]atomic.Int64
	fns                      []*Func[int, int]
	pool                     *Pool
	callersRun               bool // tasks may run in the goroutines of callers
}

const neverStarted = bullpen.OutcomeCount

// body is a task that does whatever tasks do, decided by its argument.
func (s *soak) body(ctx context.Context, n int) (int, error) {
	switch n % 97 {
	case 1:
		panic(n)
	case 2:
		if !s.callersRun { // Goexit would end the caller
			runtime.Goexit()
		}
	case 3:
		return 0, errors.New("no")
	case 4, 5:
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Duration(n%3) * time.Millisecond):
		}
	case 6:
		if w := s.pool.workerOf(ctx); w != nil {
			return s.fns[0].Call(ctx, 97*n+7)
		}
	case 8:
		<-time.After(2 * time.Millisecond)
	}
	return n, nil
}

// tell notes an outcome.
func (s *soak) tell(n, r int, err error) {
	s.ended.Add(1)
	o, started := bullpen.OutcomeOf(err)
	if !started {
		s.outcomes[neverStarted].Add(1)
		return
	}
	s.outcomes[o].Add(1)
	if o == bullpen.OK && n%97 != 6 && r != n {
		s.t.Errorf("task %d was given the result %d", n, r)
	}
}

func (s *soak) one(r *rand.Rand, n int) {
	ctx, cancel := bg, context.CancelFunc(func() {})
	switch r.IntN(8) {
	case 0:
		ctx, cancel = context.WithTimeout(bg, time.Duration(r.IntN(2000))*time.Microsecond)
	case 1:
		ctx, cancel = context.WithCancel(bg)
		time.AfterFunc(time.Duration(r.IntN(500))*time.Microsecond, cancel)
	}
	defer cancel()
	if r.IntN(6) == 0 {
		if err := s.pool.Go(ctx, func() { s.ran.Add(1) }); err == nil {
			s.closures.Add(1)
		}
		return
	}
	future, err := s.fns[r.IntN(len(s.fns))].Submit(ctx, n)
	if err != nil {
		s.refused.Add(1)
		return
	}
	s.accepted.Add(1)
	switch r.IntN(4) {
	case 0:
		future.Cancel(nil)
	case 1:
		<-future.Done()
	case 2:
		short, end := context.WithTimeout(bg, 50*time.Microsecond)
		_, _ = future.Wait(short)
		end()
	}
	v, err := future.Take(bg)
	if errors.Is(err, ErrTaken) {
		s.t.Errorf("task %d: the future was taken by nobody: %v", n, err)
	}
	s.tell(n, v, err)
}

// TestSoak does everything at once: submits of all kinds, cancels, deadlines, panics,
// Goexit, nested calls, resizes, and at last one of the endings. The only question
// is whether each accepted task has exactly one outcome.
func TestSoak(t *testing.T) {
	t.Parallel()
	total := *soakTasks
	if total == 0 {
		total = 20_000
		if os.Getenv("BULLPEN_LONG") != "" {
			total = 1_000_000
		}
	}
	const rounds = 8
	s0 := seed(t)
	for round := range rounds {
		r := rand.New(rand.NewPCG(s0, uint64(round)))
		c := Config{
			Min: r.IntN(3), Max: 3 + r.IntN(6), Queue: 1 + r.IntN(200), Overflow: Overflow(r.IntN(4)),
			Spin: r.IntN(3) == 0, Help: r.IntN(3) == 0, Grace: time.Millisecond, Idle: time.Millisecond * 8,
		}
		soakRound(t, r, c, total/rounds, round)
	}
}

func soakRound(t *testing.T, r *rand.Rand, c Config, tasks, round int) {
	t.Helper()
	p, err := newPool(c, 1<<r.IntN(3))
	if err != nil {
		t.Fatal(err)
	}
	s := &soak{t: t, pool: p, callersRun: c.Help || c.Overflow == CallerRuns}
	for _, o := range []Options{
		{}, {Name: "deadline", Timeout: time.Millisecond}, {Name: "high", Priority: High}, {Name: "low", Priority: Low},
	} {
		s.fns = append(s.fns, NewFunc(p.With(o), s.body))
	}
	var all sync.WaitGroup
	const callers = 16
	for caller := range callers {
		r := rand.New(rand.NewPCG(r.Uint64(), uint64(caller)))
		all.Go(func() {
			for i := range tasks / callers {
				s.one(r, r.IntN(1<<20)+i)
				if caller == 0 && i%64 == 0 {
					if err := p.Resize(r.IntN(2), 2+r.IntN(7)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	ended := make(chan error, 1)
	if how := round % 4; how > 0 { // in mid-work, or afterwards
		eventually(t, "half of the work is done", func() bool { return s.ended.Load()+s.refused.Load() > int64(tasks/4) })
		go func() {
			ended <- []func() error{nil, p.Close, func() error { return p.Stop(bg) }, func() error { return p.Drain(bg) }}[how]()
		}()
		all.Wait() // the test waits for the answer below
	} else {
		all.Wait()
		ended <- p.Drain(bg)
	}
	if err := waitFor(t, ended, p); err != nil {
		t.Errorf("the end of the pool: %v", err)
	}
	s.check(c)
}

func (s *soak) check(c Config) {
	s.t.Helper()
	var sum int64
	for i := range s.outcomes {
		sum += s.outcomes[i].Load()
	}
	if sum != s.accepted.Load() || s.ended.Load() != sum {
		s.t.Errorf("%d tasks were accepted and %d outcomes were reported (%+v)", s.accepted.Load(), sum, c)
	}
	p := s.pool
	never := p.main.kind.never.Load()
	if ran := s.ran.Load(); ran > s.closures.Load() || ran+int64(never) < s.closures.Load() {
		s.t.Errorf("%d closures were accepted, %d ran, %d tasks never started", s.closures.Load(), ran, never)
	}
	if h := p.counts(); h != 0 {
		s.t.Errorf("%d workers, %d parked, %d searching after the end", h.size(), h.parked(), h.searching())
	}
	if n, g := p.nesting.Load(), p.guests.Load(); n != 0 || g != 0 {
		s.t.Errorf("%d workers nest and %d guests run after the end", n, g)
	}
	if n := p.counters.blocked.Load(); n != 0 {
		s.t.Errorf("%d callers are blocked after the end", n)
	}
	if n := p.admission.dead.Load(); n != 0 {
		s.t.Errorf("%d stale tasks are counted in an empty queue (%+v)", n, c)
	}
}

// waitFor waits for the end of the pool, and says what it has when it does not come.
func waitFor(t *testing.T, ended chan error, p *Pool) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(time.Minute):
		p.mu.Lock()
		defer p.mu.Unlock()
		h := p.counts()
		t.Fatalf("the pool does not end: it is %v with %d goroutines, %d guests, %d tasks; of %d workers %d are parked and %d search",
			p.state.State(), p.alive, p.guests.Load(), p.waiting(), h.size(), h.parked(), h.searching())
		return nil
	}
}
