package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/bullpen-run/bullpen"
	bullpool "github.com/bullpen-run/bullpen/pool"
)

// bullpens are the ways to use Bullpen's pool. Its configuration is the default
// one but for Max; rows that need more say so in their title.
func bullpens() []system {
	typed := map[string]maker{"group": oursTyped(with{}), "deadline": oursTypedDeadline}
	return []system{
		{"bullpen", "Bullpen, Go", ours, oursMakers()},
		{"bullpen-batch", "Bullpen, GoAll, 64 a call", ours, map[string]maker{"one": oursBatch, "many": oursManyBatch, "group": oursBatchGroup}},
		{"bullpen-call", "Bullpen, Func.Call", ours, map[string]maker{"trip": oursCall(with{})}},
		{"bullpen-take", "Bullpen, Func.Submit and Take", ours, map[string]maker{"trip": oursTake, "group": oursTakeGroup, "deadline": oursTakeDeadline}},
		{"bullpen-wait", "Bullpen, Func.Submit and Wait", ours, map[string]maker{"trip": oursWait}},
		{"bullpen-submit", "Bullpen, Submit of a closure and Wait", ours, map[string]maker{"trip": oursSubmit}},
		{"bullpen-spin", "Bullpen with Spin, typed", ours, map[string]maker{"trip": oursCall(with{spin: true}), "group": oursTyped(with{spin: true})}},
		{"bullpen-help", "Bullpen with Help, typed", ours, map[string]maker{"trip": oursCall(with{help: true}), "group": oursTyped(with{help: true})}},
		{"bullpen-group", "Bullpen, group of closures", ours, map[string]maker{"group": oursGroup(fact, nil), "deadline": oursGroup(plusOne, polite)}},
		{"bullpen-typed", "Bullpen, typed group", ours, typed},
		{"bullpen-all", "Bullpen, Func.All", ours, map[string]maker{"group": oursAll}},
		{"bullpen-inline", "Bullpen, Inline.Execute", ours, map[string]maker{"trip": oursInline}},
		{"bullpen-map", "Bullpen, Func.Map", ours, map[string]maker{"group": oursMap}},
	}
}

// with are the options of a pool that differ from its defaults.
type with struct{ spin, help bool }

func (o with) open() (*bullpool.Pool, error) {
	return bullpool.New(bullpool.Config{Max: workers, Spin: o.spin, Help: o.help})
}

var background = context.Background()

func openBullpen(r room) (pool, error) {
	c := bullpool.Config{Max: r.workers}
	if r.queue != queue { // memory only: more waits than the default allows
		c.Queue = r.queue
	}
	p, err := bullpool.New(c)
	if err != nil {
		return pool{}, err
	}
	return pool{func(f func()) error { return p.Go(background, f) }, ending(p)}, nil
}

// ending closes p, which has no task left.
func ending(p *bullpool.Pool) func() {
	return func() { _ = p.Close() } // what could not end is not measured any more
}

func oursMakers() map[string]maker {
	makers := weighed(simple(openBullpen), openBullpen)
	delete(makers, "deadline") // the pool has deadlines of its own
	makers["futures"] = oursFutures
	return makers
}

// made makes work of a pool and of what do makes of it.
func made(o with, do func(p *bullpool.Pool) work) (work, error) {
	p, err := o.open()
	if err != nil {
		return work{}, err
	}
	w := do(p)
	w.close = ending(p)
	return w, nil
}

// batch is how many tasks one call of GoAll submits.
const batch = 64

func oursBatch(shape) (work, error) {
	return made(with{}, func(p *bullpool.Pool) work {
		var wg sync.WaitGroup
		tasks := slices.Repeat([]func(){wg.Done}, batch)
		return work{tasks: batch, run: func(n int) error {
			wg.Add(n * batch)
			for range n {
				if _, err := p.GoAll(background, tasks); err != nil {
					return err
				}
			}
			wg.Wait()
			return nil
		}}
	})
}

func oursManyBatch(s shape) (work, error) {
	return made(with{}, func(p *bullpool.Pool) work {
		return producing(s.producers, func(f func()) error {
			var tasks [batch]func()
			for i := range tasks {
				tasks[i] = f
			}
			_, err := p.GoAll(background, tasks[:])
			return err
		}, batch)
	})
}

func oursBatchGroup(s shape) (work, error) {
	return made(with{}, func(p *bullpool.Pool) work {
		tasks := make([]func(), s.size)
		return grouped(s, fact, func(args, out []uint64) error {
			var wg sync.WaitGroup
			wg.Add(len(args))
			for i, a := range args {
				tasks[i] = func() { out[i] = fact(a); wg.Done() }
			}
			for part := range slices.Chunk(tasks, batch) {
				if _, err := p.GoAll(background, part); err != nil {
					return err
				}
			}
			wg.Wait()
			return nil
		})
	})
}

func next(_ context.Context, a uint64) (uint64, error)     { return a + 1, nil }
func multiply(_ context.Context, n uint64) (uint64, error) { return fact(n), nil }

func oursCall(o with) maker {
	return func(shape) (work, error) {
		return made(o, func(p *bullpool.Pool) work {
			f := bullpool.NewFunc(p, next)
			return trips(func(a uint64) (uint64, error) { return f.Call(background, a) })
		})
	}
}

func oursTake(shape) (work, error) {
	return made(with{}, func(p *bullpool.Pool) work {
		f := bullpool.NewFunc(p, next)
		return trips(func(a uint64) (uint64, error) {
			future, err := f.Submit(background, a)
			if err != nil {
				return 0, err
			}
			return future.Take(background)
		})
	})
}

func oursWait(shape) (work, error) {
	return made(with{}, func(p *bullpool.Pool) work {
		f := bullpool.NewFunc(p, next)
		return trips(func(a uint64) (uint64, error) {
			future, err := f.Submit(background, a)
			if err != nil {
				return 0, err
			}
			return future.Wait(background)
		})
	})
}

// oursInline runs tasks of the contract, with payloads, in the goroutine of the caller.
func oursInline(shape) (work, error) {
	e, err := bullpen.NewInline(bullpen.InlineConfig{Handlers: map[string]bullpen.Handler{
		"next": func(_ context.Context, t bullpen.Task) ([]byte, error) {
			binary.LittleEndian.PutUint64(t.Payload, binary.LittleEndian.Uint64(t.Payload)+1)
			return t.Payload, nil
		},
	}})
	if err != nil {
		return work{}, err
	}
	task := bullpen.Task{Name: "next", Payload: make([]byte, 8)}
	w := trips(func(a uint64) (uint64, error) {
		binary.LittleEndian.PutUint64(task.Payload, a)
		r, err := e.Execute(background, task)
		if err != nil {
			return 0, err
		}
		return binary.LittleEndian.Uint64(r.Payload), nil
	})
	w.close = func() { _ = e.Close() } // nothing runs any more
	return w, nil
}

func oursSubmit(shape) (work, error) {
	return made(with{}, func(p *bullpool.Pool) work {
		var arg uint64
		task := func(context.Context) (uint64, error) { return arg + 1, nil }
		return trips(func(a uint64) (uint64, error) {
			arg = a
			future, err := bullpool.Submit(background, p, task)
			if err != nil {
				return 0, err
			}
			return future.Wait(background)
		})
	})
}

// oursGroup submits closures to a group; with a body that looks at its context
// they have a deadline.
func oursGroup(f func(uint64) uint64, body func(context.Context, uint64) (uint64, error)) maker {
	return func(s shape) (work, error) {
		return made(with{}, func(p *bullpool.Pool) work {
			if body == nil {
				return oursGrouped(s, f, func() *bullpool.Group { return p.Group(background, bullpool.GroupConfig{}) }, multiply)
			}
			place := p.With(bullpool.Options{Timeout: limit})
			return oursGrouped(s, f, func() *bullpool.Group { return place.Group(background, bullpool.GroupConfig{}) }, body)
		})
	}
}

func oursGrouped(s shape, f func(uint64) uint64, open func() *bullpool.Group, body func(context.Context, uint64) (uint64, error)) work {
	return grouped(s, f, func(args, out []uint64) error {
		g := open()
		for i, a := range args {
			err := g.Go(func(ctx context.Context) (err error) {
				out[i], err = body(ctx, a)
				return err
			})
			if err != nil {
				return err
			}
		}
		return g.Wait()
	})
}

func oursTyped(o with) maker {
	return func(s shape) (work, error) {
		return made(o, func(p *bullpool.Pool) work {
			return typedFuncs(s, fact, bullpool.NewFunc(p, multiply))
		})
	}
}

func oursTypedDeadline(s shape) (work, error) {
	return made(with{}, func(p *bullpool.Pool) work {
		return typedFuncs(s, plusOne, bullpool.NewFunc(p.With(bullpool.Options{Timeout: limit}), polite))
	})
}

func typedFuncs(s shape, f func(uint64) uint64, task *bullpool.Func[uint64, uint64]) work {
	return grouped(s, f, func(args, out []uint64) error {
		g := task.Group(background, bullpool.GroupConfig{})
		for _, a := range args {
			if err := g.Go(a); err != nil {
				return err
			}
		}
		results, err := g.Wait()
		copy(out, results)
		return err
	})
}

func oursTakeGroup(s shape) (work, error) {
	return made(with{}, func(p *bullpool.Pool) work {
		return takes(s, fact, bullpool.NewFunc(p, multiply))
	})
}

func oursTakeDeadline(s shape) (work, error) {
	return made(with{}, func(p *bullpool.Pool) work {
		return takes(s, plusOne, bullpool.NewFunc(p.With(bullpool.Options{Timeout: limit}), polite))
	})
}

// takes submits all tasks of a group, and takes their results in order.
func takes(s shape, f func(uint64) uint64, task *bullpool.Func[uint64, uint64]) work {
	futures := make([]bullpool.Future[uint64], s.size)
	return grouped(s, f, func(args, out []uint64) (err error) {
		for i, a := range args {
			if futures[i], err = task.Submit(background, a); err != nil {
				return err
			}
		}
		for i := range futures {
			if out[i], err = futures[i].Take(background); err != nil {
				return err
			}
		}
		return nil
	})
}

func oursAll(s shape) (work, error) {
	return made(with{}, func(p *bullpool.Pool) work {
		f := bullpool.NewFunc(p, multiply)
		return grouped(s, fact, func(args, out []uint64) error {
			results, err := f.All(background, args)
			copy(out, results)
			return err
		})
	})
}

func oursMap(s shape) (work, error) {
	return made(with{}, func(p *bullpool.Pool) work {
		f := bullpool.NewFunc(p, multiply)
		return grouped(s, fact, func(args, out []uint64) error {
			i := 0
			for v, err := range f.Map(background, slices.Values(args)) {
				if err != nil {
					return err
				}
				out[i] = v
				i++
			}
			return nil
		})
	})
}

// oursFutures weighs typed tasks with a future that wait behind held workers.
func oursFutures(s shape) (work, error) {
	return work{close: func() {}, weigh: func() (float64, int, error) {
		before := live()
		p, err := bullpool.New(bullpool.Config{Max: workers, Queue: s.size + workers})
		if err != nil {
			return 0, 0, err
		}
		g, err := hold(workers, func(f func()) error { return p.Go(background, f) })
		if err != nil {
			return 0, 0, err
		}
		f := bullpool.NewFunc(p, next)
		futures := make([]bullpool.Future[uint64], s.size)
		for i := range futures {
			if futures[i], err = f.Submit(background, uint64(i)); err != nil {
				return 0, 0, err
			}
		}
		bytes := live() - before
		close(g.open)
		for i := range futures {
			if v, err := futures[i].Wait(background); err != nil || v != uint64(i)+1 {
				return 0, 0, fmt.Errorf("task %d gave %d, %w", i, v, err)
			}
		}
		ending(p)()
		return bytes, s.size, nil
	}}, nil
}
