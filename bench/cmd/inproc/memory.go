package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// live gives the bytes that the program keeps: the heap after a collection, and
// the stacks.
func live() float64 {
	runtime.GC()
	runtime.GC() // what the first one freed is swept now, and pools are empty
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) + float64(m.StackInuse)
}

// gate holds the workers of a pool.
type gate struct {
	open    chan struct{}
	started sync.WaitGroup
}

// hold occupies n workers, and returns when they are all in their task.
func hold(n int, submit func(func()) error) (*gate, error) {
	g := &gate{open: make(chan struct{})}
	g.started.Add(n)
	for range n {
		if err := submit(func() { g.started.Done(); <-g.open }); err != nil {
			return nil, err
		}
	}
	g.started.Wait()
	return g, nil
}

// queued weighs a closure, always the same, that waits behind held workers.
func queued(open opener) maker {
	return func(s shape) (work, error) {
		return work{close: func() {}, weigh: func() (float64, int, error) {
			return weighQueued(open, s.size)
		}}, nil
	}
}

func weighQueued(open opener, n int) (float64, int, error) {
	var ran atomic.Int64
	var all sync.WaitGroup
	task := func() { ran.Add(1); all.Done() }
	all.Add(n)
	before := live()
	p, err := open(room{workers, n + workers})
	if err != nil {
		return 0, 0, err
	}
	g, err := hold(workers, p.submit)
	if err != nil {
		return 0, 0, err
	}
	for range n {
		if err := p.submit(task); err != nil {
			return 0, 0, err
		}
	}
	bytes := live() - before
	if got := ran.Load(); got != 0 {
		return 0, 0, fmt.Errorf("%d tasks did not wait", got)
	}
	close(g.open)
	all.Wait()
	p.close()
	return bytes, n, nil
}

// blocked weighs a task of a pool that has no queue: a goroutine that waits.
func blocked(open func() (p pool, waiting func() int, err error)) maker {
	return func(s shape) (work, error) {
		return work{close: func() {}, weigh: func() (float64, int, error) {
			before := live()
			p, waiting, err := open()
			if err != nil {
				return 0, 0, err
			}
			g, err := hold(workers, p.submit)
			if err != nil {
				return 0, 0, err
			}
			n := s.size / 10 // a million goroutines would need gigabytes
			var all sync.WaitGroup
			failed := make(chan error, 1)
			all.Add(n)
			for range n {
				go func() { // ends when the pool has taken its task
					if err := p.submit(all.Done); err != nil {
						failed <- err
					}
				}()
			}
			for waiting() < n {
				select {
				case err := <-failed:
					return 0, 0, err
				default:
					runtime.Gosched()
				}
			}
			bytes := live() - before
			close(g.open)
			all.Wait()
			p.close()
			return bytes, n, nil
		}}, nil
	}
}

// settle is how long workers get to become idle, or to end, after their task.
const settle = 200 * time.Millisecond

// idle weighs a worker that has run a task and waits for another.
func idle(open opener) maker {
	return func(s shape) (work, error) {
		return work{close: func() {}, weigh: func() (float64, int, error) {
			before := live()
			p, err := open(room{s.size, s.size})
			if err != nil {
				return 0, 0, err
			}
			var ended sync.WaitGroup
			ended.Add(s.size)
			g, err := hold(s.size, func(f func()) error {
				return p.submit(func() { f(); ended.Done() })
			})
			if err != nil {
				return 0, 0, err
			}
			close(g.open)
			ended.Wait()
			<-time.After(settle)
			bytes := live() - before
			p.close()
			return bytes, s.size, nil
		}}, nil
	}
}

// weighed adds the cells of memory to makers.
func weighed(makers map[string]maker, open opener) map[string]maker {
	makers["queued"], makers["idle"] = queued(open), idle(open)
	return makers
}
