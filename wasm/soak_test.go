package wasm

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// guest is a pool whose guests end their tasks in one way.
type guest struct {
	*Pool

	wants bullpen.Outcome
}

// guestsOfAllKinds returns good and hostile guests in all modes.
func guestsOfAllKinds(t *testing.T) (guests []guest) {
	t.Helper()
	for _, mode := range modes {
		for _, kind := range []struct {
			wants  bullpen.Outcome
			module *builder
		}{
			{bullpen.OK, sum()}, {bullpen.Crashed, trap()}, {bullpen.Memory, hog()}, {bullpen.Timeout, spin()},
			{bullpen.Protocol, reactor(0, packed(num(-2), num(16)))},
		} {
			c := Config{Code: kind.module.build(), Mode: mode, Max: 2, Limits: bullpen.Limits{Memory: 1 << 20, Timeout: time.Minute}}
			if kind.wants == bullpen.Timeout {
				c.Limits.Timeout = time.Millisecond
			}
			guests = append(guests, guest{open(t, c), kind.wants})
		}
	}
	return guests
}

// give gives one task, which is canceled now and then, and checks its outcome.
func (g guest) give(t *testing.T, rng *rand.Rand) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rng.IntN(20) == 0 {
		time.AfterFunc(time.Duration(rng.IntN(200))*time.Microsecond, cancel)
	}
	var outcomes atomic.Int64
	ended := make(chan error, 2)
	err := g.Submit(ctx, bullpen.Task{Name: "x", Payload: kilobyte}, func(_ bullpen.Result, err error) {
		outcomes.Add(1)
		ended <- err
	})
	if err == nil {
		err = <-ended
	}
	o, started := bullpen.OutcomeOf(err)
	canceled := o == bullpen.Canceled || !started && errors.Is(err, context.Canceled)
	if o != g.wants && !canceled || outcomes.Load() > 1 {
		t.Errorf("a task that ends as %v ended with %v, %d outcomes", g.wants, err, outcomes.Load())
	}
}

// TestMixedGuests gives good and hostile guests tasks from several goroutines at once, and
// cancels some. Each has exactly one outcome, and memory stays flat. BULLPEN_LONG=1 makes it a
// million tasks.
func TestMixedGuests(t *testing.T) {
	tasks := 4_000
	if os.Getenv("BULLPEN_LONG") != "" {
		tasks = 1_000_000
	}
	guests := guestsOfAllKinds(t)
	var before uint64
	const givers = 4
	for _, part := range []int{tasks / 4, tasks * 3 / 4} { // the first part warms up
		var all sync.WaitGroup
		for g := range givers {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			all.Go(func() { // ends after its tasks; the test waits for it
				for n := 0; n < part/givers && !t.Failed(); n++ {
					one := guests[rng.IntN(len(guests))]
					if one.wants != bullpen.Timeout || rng.IntN(10) == 0 { // those take long
						one.give(t, rng)
					}
				}
			})
		}
		all.Wait()
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		if before == 0 {
			before = s.HeapAlloc
		} else if s.HeapAlloc > before+before/2+(16<<20) {
			t.Errorf("the heap grew from %d to %d bytes", before, s.HeapAlloc)
		}
	}
	for _, one := range guests {
		if s := one.Stats(); s.Running != 0 || s.Queued != 0 {
			t.Errorf("%d tasks run and %d wait when all have ended", s.Running, s.Queued)
		}
	}
}
