package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/run"
	"github.com/bullpen-run/bullpen/job"
)

// tardy is a store whose takers tell late, and not in order, what they have to tell.
type tardy struct {
	engine.Store

	late func() time.Duration
}

func (s tardy) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	e, err := s.Store.Open(ctx, o)
	return &tardyEngine{e, s.late}, err
}

type tardyEngine struct {
	engine.Engine

	late func() time.Duration
}

// Take implements [engine.Engine].
func (e *tardyEngine) Take(c engine.Consumer, deliver func(engine.Delivery), returned func(int)) (engine.Taker, error) {
	t := &tardyTaker{late: e.late}
	taker, err := e.Engine.Take(c, func(d engine.Delivery) { t.soon(func() { deliver(d) }) }, func(n int) {
		for part := n / 2; part > 0 && part < n; n -= part { // it may come in parts
			t.soon(func() { returned(part) })
		}
		t.soon(func() { returned(n) })
	})
	t.Taker = taker
	return t, err
}

type tardyTaker struct {
	engine.Taker

	late     func() time.Duration
	underWay sync.WaitGroup // what is on its way
}

func (t *tardyTaker) soon(tell func()) {
	t.underWay.Add(1)
	time.AfterFunc(t.late(), func() {
		defer t.underWay.Done()
		tell()
	})
}

// Stop implements [engine.Taker].
func (t *tardyTaker) Stop() {
	t.Taker.Stop()
	t.underWay.Wait()
}

// TestNoStall lets jobs of all priorities come, in bursts and alone, some with a group,
// some with a key, some canceled, to executors whose places come and go, some of which
// fail or refuse, by one call of Work or several, on one node or two, from a store that
// answers late: as long as there is a place, whatever waits is seen.
func TestNoStall(t *testing.T) {
	t.Parallel()
	seeds := uint64(48)
	switch {
	case os.Getenv("BULLPEN_LONG") != "":
		seeds = 300
	case testing.Short():
		seeds = 12
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { noStall(t, seed) })
		})
	}
}

func noStall(t *testing.T, seed uint64) {
	t.Helper()
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 7))
	n := func(most int) int {
		mu.Lock()
		defer mu.Unlock()
		return rnd.IntN(most)
	}
	late := func() time.Duration { return time.Duration(n(5000)) * time.Microsecond }
	nodes := fitfulNodes(t, seed, n, late)
	groups, keys := seed%3 == 0, seed%5 < 2
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	longest := 10 * time.Second
	if seed%7 == 0 {
		longest += run.FullHold
	}
	var open []string
	for range 200 {
		p := job.Priority(n(int(job.Priorities)))
		for range 1 + n(3)*n(40) {
			j := job.Job{Priority: p}
			if groups && n(3) == 0 {
				j.Group = string(rune('a' + n(3)))
			}
			if keys && n(3) == 0 {
				j.Key = fmt.Sprint(n(20))
			}
			open = append(open, enqueued(t, nodes[0], j).ID)
		}
		for range n(10) / 9 * n(10) {
			if err := nodes[0].Cancel(ctx, open[n(len(open))]); err != nil && !errors.Is(err, job.ErrEnded) {
				t.Fatal(err)
			}
		}
		switch n(4) {
		case 0: // at once
		case 1:
			<-time.After(late())
		default:
			for _, id := range open {
				began := time.Now()
				if _, err := nodes[0].Wait(ctx, id); errors.Is(err, context.DeadlineExceeded) || time.Since(began) > longest {
					t.Fatalf("job %s waited for %v: %v; %s", id, time.Since(began), err, standingOf(t, nodes))
				}
			}
			open = open[:0]
		}
	}
}

// fitfulNodes opens a queue on one node or two, each with a call of Work or two.
func fitfulNodes(t *testing.T, seed uint64, n func(int) int, late func() time.Duration) (nodes []*Queue) {
	t.Helper()
	store := tardy{&memory.Store{Shared: seed%4 == 3}, late}
	for range 1 + seed%4/3 {
		q := openOn(t, Config{Store: store, Retry: job.Retry{Attempts: 3, Backoff: 10 * time.Millisecond}})
		for range 1 + seed%5/4 {
			e := &fitful{n: n, refuses: seed%7 == 0, fails: seed%11 < 3}
			e.places.Store(4)
			workOn(t, q, e, WorkConfig{Strict: seed%2 == 0})
		}
		nodes = append(nodes, q)
	}
	return nodes
}

// fitful is an executor whose places change whenever a task begins.
type fitful struct {
	submit

	n              func(int) int
	refuses, fails bool // sometimes
	places         atomic.Int64
	running        atomic.Int64
}

func (f *fitful) Capacity() int { return max(0, int(f.places.Load()-f.running.Load())) }

func (f *fitful) Submit(_ context.Context, _ bullpen.Task, done func(bullpen.Result, error)) error {
	if f.refuses && f.n(10) == 0 {
		return bullpen.ErrOverloaded
	}
	f.running.Add(1)
	f.places.Store(int64(1 + f.n(3)*f.n(20)))
	var err error
	if f.fails && f.n(4) == 0 {
		err = failure(bullpen.Failed)
	}
	time.AfterFunc(time.Duration(f.n(20))*time.Millisecond, func() {
		f.running.Add(-1)
		done(bullpen.Result{}, err)
	})
	return nil
}

// standingOf says how much the nodes have in hand, and what waits.
func standingOf(t *testing.T, nodes []*Queue) string {
	t.Helper()
	synctest.Wait()
	var s strings.Builder
	for _, q := range nodes {
		depths, err := q.Depth(t.Context(), "default")
		fmt.Fprintf(&s, "%+v, %+v, %v\n", q.Stats(), depths, err)
	}
	return s.String()
}
