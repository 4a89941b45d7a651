package main

import (
	"errors"
	"fmt"

	"github.com/Jeffail/tunny"
	"github.com/alitto/pond/v2"
	"github.com/bytedance/gopkg/util/gopool"
	"github.com/gammazero/workerpool"
	"github.com/panjf2000/ants/v2"
	conc "github.com/sourcegraph/conc/pool"
)

// libraries are the pools that others wrote, each with the ways of use that are
// fastest for what the experiment asks.
func libraries() []system {
	makers := func(key string, m maker) map[string]maker { return map[string]maker{key: m} }
	return []system{
		{"ants", "ants", peer, antsMakers()},
		{"ants-typed", "ants, generic function", peer, makers("group", antsTyped)},
		{"pond", "pond, Go", peer, weighed(simple(openPond), openPond)},
		{"pond-bounded", "pond, Go, queue of 1024", peer, simple(openPondBounded)},
		{"pond-group", "pond, group", peer, makers("group", pondGroup)},
		{"pond-result", "pond, with results", peer, map[string]maker{"trip": pondTrip, "group": pondResults, "futures": pondFutures}},
		{"gammazero", "gammazero/workerpool", peer, weighed(simple(openGammazero), openGammazero)},
		{"gammazero-wait", "gammazero/workerpool, SubmitWait", peer, makers("trip", gammazeroWait)},
		{"conc", "conc", peer, simple(openConc)},
		{"conc-result", "conc, with results", peer, makers("group", concResults)},
		{"gopool", "gopool", peer, weighed(simple(openGopool), openGopool)},
		{"tunny", "tunny", peer, tunnyMakers()},
		{"ants-abandon", "ants, abandons at the deadline", peer, makers("deadline", on(openAnts, deadline(abandon)))},
		{"pond-abandon", "pond, queue of 1024, abandons at the deadline", peer, makers("deadline", on(openPondBounded, deadline(abandon)))},
	}
}

func openAnts(r room) (pool, error) {
	p, err := ants.NewPool(r.workers)
	if err != nil {
		return pool{}, err
	}
	return pool{p.Submit, p.Release}, nil
}

func antsMakers() map[string]maker {
	makers := simple(openAnts)
	makers["idle"] = idle(openAnts)
	makers["queued"] = blocked(func() (pool, func() int, error) {
		p, err := ants.NewPool(workers)
		if err != nil {
			return pool{}, nil, err
		}
		return pool{p.Submit, p.Release}, p.Waiting, nil
	})
	return makers
}

func antsTyped(s shape) (work, error) {
	p, err := ants.NewPoolWithFuncGeneric(workers, func(t typedTask) {
		*t.out = fact(t.arg)
		t.done.Done()
	})
	if err != nil {
		return work{}, err
	}
	w := typedGroup(s, p.Invoke)
	w.close = p.Release
	return w, nil
}

func openPond(r room) (pool, error) {
	p := pond.NewPool(r.workers)
	return pool{p.Go, p.StopAndWait}, nil
}

func openPondBounded(r room) (pool, error) {
	p := pond.NewPool(r.workers, pond.WithQueueSize(r.queue))
	return pool{p.Go, p.StopAndWait}, nil
}

func pondGroup(s shape) (work, error) {
	p := pond.NewPool(workers)
	w := grouped(s, fact, func(args, out []uint64) error {
		g := p.NewGroup()
		for i, a := range args {
			g.Submit(func() { out[i] = fact(a) })
		}
		return g.Wait()
	})
	w.close = p.StopAndWait
	return w, nil
}

func pondTrip(shape) (work, error) {
	p := pond.NewResultPool[uint64](workers)
	var arg uint64
	task := func() uint64 { return arg + 1 }
	w := trips(func(a uint64) (uint64, error) {
		arg = a
		return p.Submit(task).Wait()
	})
	w.close = p.StopAndWait
	return w, nil
}

func pondResults(s shape) (work, error) {
	p := pond.NewResultPool[uint64](workers)
	w := grouped(s, fact, func(args, out []uint64) error {
		g := p.NewGroup()
		for _, a := range args {
			g.Submit(func() uint64 { return fact(a) })
		}
		results, err := g.Wait()
		copy(out, results)
		return err
	})
	w.close = p.StopAndWait
	return w, nil
}

// pondFutures weighs results that wait behind held workers.
func pondFutures(s shape) (work, error) {
	return work{close: func() {}, weigh: func() (float64, int, error) {
		before := live()
		p := pond.NewResultPool[uint64](workers)
		g, err := hold(workers, func(f func()) error {
			p.Submit(func() uint64 { f(); return 0 })
			return nil
		})
		if err != nil {
			return 0, 0, err
		}
		futures := make([]pond.Result[uint64], s.size)
		task := func() uint64 { return fact(factorial) }
		for i := range futures {
			futures[i] = p.Submit(task)
		}
		bytes := live() - before
		close(g.open)
		want := fact(factorial)
		for _, f := range futures {
			if v, err := f.Wait(); err != nil || v != want {
				return 0, 0, fmt.Errorf("a task gave %d, %w", v, err)
			}
		}
		p.StopAndWait()
		return bytes, s.size, nil
	}}, nil
}

func openGammazero(r room) (pool, error) {
	p := workerpool.New(r.workers)
	return pool{p.Do, p.StopWait}, nil
}

func gammazeroWait(shape) (work, error) {
	p := workerpool.New(workers)
	var arg, result uint64
	task := func() { result = arg + 1 }
	w := trips(func(a uint64) (uint64, error) {
		arg = a
		err := p.DoWait(task)
		return result, err
	})
	w.close = p.StopWait
	return w, nil
}

func openConc(r room) (pool, error) {
	p := conc.New().WithMaxGoroutines(r.workers)
	return pool{func(f func()) error { p.Go(f); return nil }, p.Wait}, nil
}

// concResults sorts nothing: this version of the library gives results in the
// order in which the tasks end, and the sum does not care.
func concResults(s shape) (work, error) {
	w := grouped(s, fact, func(args, out []uint64) error {
		p := conc.NewWithResults[uint64]().WithMaxGoroutines(workers)
		for _, a := range args {
			p.Go(func() uint64 { return fact(a) })
		}
		copy(out, p.Wait())
		return nil
	})
	w.close = func() {}
	return w, nil
}

func openGopool(r room) (pool, error) {
	p := gopool.NewPool("bench", int32(r.workers), gopool.NewConfig())
	return pool{func(f func()) error { p.Go(f); return nil }, func() {}}, nil // it has no end
}

// openTunny is one call at a time for each producer: the library has no way to
// submit without waiting.
func openTunny(r room) (pool, error) {
	p := tunny.NewCallback(r.workers)
	return pool{func(f func()) error { return tunnyError(p.Process(f)) }, p.Close}, nil
}

// tunnyError is what a callback pool gives instead of a result.
func tunnyError(v any) error {
	err, _ := v.(error)
	return err
}

func tunnyMakers() map[string]maker {
	return map[string]maker{
		"one":   on(openTunny, one),
		"many":  on(openTunny, many),
		"idle":  tunnyIdle,
		"trip":  tunnyTrip,
		"group": tunnyGroup,
	}
}

func tunnyFunc(f func(uint64) uint64) *tunny.Pool {
	return tunny.NewFunc(workers, func(a any) any {
		n, _ := a.(uint64)
		return f(n)
	})
}

func tunnyCall(p *tunny.Pool, a uint64) (uint64, error) {
	v, ok := p.Process(a).(uint64)
	if !ok {
		return 0, errors.New("tunny gave no number")
	}
	return v, nil
}

func tunnyTrip(shape) (work, error) {
	p := tunnyFunc(plusOne)
	w := trips(func(a uint64) (uint64, error) { return tunnyCall(p, a) })
	w.close = p.Close
	return w, nil
}

func tunnyGroup(s shape) (work, error) {
	p := tunnyFunc(fact)
	w := grouped(s, fact, func(args, out []uint64) (err error) {
		for i, a := range args {
			if out[i], err = tunnyCall(p, a); err != nil {
				return err
			}
		}
		return nil
	})
	w.close = p.Close
	return w, nil
}

// tunnyIdle opens a pool of idle workers: they are all there from the start.
func tunnyIdle(s shape) (work, error) {
	return work{close: func() {}, weigh: func() (float64, int, error) {
		before := live()
		p := tunny.NewCallback(s.size)
		bytes := live() - before
		p.Close()
		return bytes, s.size, nil
	}}, nil
}
