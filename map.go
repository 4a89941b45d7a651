package bullpen

import (
	"context"
	"iter"
	"sync"
)

// Ended is one task of [Map] or [ExecuteAll] and its outcome.
type Ended struct {
	// Index is the position of the task in the input, from 0.
	Index  int
	Task   Task
	Result Result
	Err    error
}

// MapOptions configures [Map]. The zero value yields results in the order of the input.
type MapOptions struct {
	// AsCompleted yields results in the order in which tasks end.
	AsCompleted bool
	// Ahead is how many tasks Map may read from the input beyond the one whose result it
	// yielded last; 0 means 1024. It bounds the memory used.
	Ahead int
}

// Map runs every task of the input on e and yields their outcomes. A failed task does not
// stop the others. If the loop ends early or ctx ends, Map cancels the tasks that have not
// ended, and waits until all submitted tasks have their outcome. If ctx ends, Map stops
// reading the input; tasks that were read but not submitted are yielded with the cause of
// ctx.
func Map(ctx context.Context, e Executor, tasks iter.Seq[Task], o MapOptions) iter.Seq[Ended] {
	if o.Ahead <= 0 {
		o.Ahead = 1024
	}
	return func(yield func(Ended) bool) {
		m := &mapRun{e: e, options: o, ring: make([]Ended, o.Ahead), ready: make([]bool, o.Ahead)}
		m.wake.L = &m.mu
		m.run(ctx, tasks, yield)
	}
}

// mapRun is one call of Map. The ring holds the results that were not yielded yet. In input
// order, task i has entry i%Ahead; as completed, entries are filled in order of completion.
type mapRun struct {
	e       Executor
	options MapOptions

	mu      sync.Mutex
	wake    sync.Cond // a field below changed
	ring    []Ended   // guarded by mu
	ready   []bool    // guarded by mu
	read    int       // tasks taken from the input; guarded by mu
	ended   int       // tasks with an outcome; guarded by mu
	yielded int       // guarded by mu
	eof     bool      // the input is exhausted; guarded by mu
	stop    bool      // the consumer left the loop; guarded by mu
}

func (m *mapRun) run(ctx context.Context, tasks iter.Seq[Task], yield func(Ended) bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var feeder sync.WaitGroup
	feeder.Go(func() { m.feed(ctx, tasks) }) // ends with the input, ctx or the consumer; run waits for it
	defer func() {
		m.mu.Lock()
		m.stop = true
		m.wake.Broadcast()
		m.mu.Unlock()
		cancel()
		feeder.Wait()
		m.mu.Lock()
		for m.ended < m.read {
			m.wake.Wait()
		}
		m.mu.Unlock()
	}()
	for {
		r, ok := m.next()
		if !ok || !yield(r) {
			return
		}
	}
}

// next waits for the next result to yield. It returns false at the end.
func (m *mapRun) next() (Ended, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		at := m.yielded % len(m.ring)
		if m.yielded < m.read && m.ready[at] {
			r := m.ring[at]
			m.ring[at], m.ready[at] = Ended{}, false
			m.yielded++
			m.wake.Broadcast()
			return r, true
		}
		if m.eof && m.yielded == m.read {
			return Ended{}, false
		}
		m.wake.Wait()
	}
}

func (m *mapRun) feed(ctx context.Context, tasks iter.Seq[Task]) {
	defer func() {
		m.mu.Lock()
		m.eof = true
		m.wake.Broadcast()
		m.mu.Unlock()
	}()
	for t := range tasks {
		i, ok := m.reserve()
		if !ok {
			return
		}
		err := m.e.Submit(ctx, t, func(r Result, err error) { m.end(Ended{Index: i, Task: t, Result: r, Err: err}) })
		if err != nil {
			m.end(Ended{Index: i, Task: t, Err: err})
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// reserve waits for room in the ring and takes the next index.
func (m *mapRun) reserve() (int, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.read-m.yielded >= len(m.ring) && !m.stop {
		m.wake.Wait()
	}
	if m.stop {
		return 0, false
	}
	i := m.read
	m.read++
	return i, true
}

func (m *mapRun) end(r Ended) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := r.Index % len(m.ring)
	if m.options.AsCompleted {
		at = m.ended % len(m.ring)
	}
	m.ring[at], m.ready[at] = r, true
	m.ended++
	m.wake.Broadcast()
}

// ExecuteAll runs all tasks on e and returns their outcomes in the order of the input. A
// failed task does not stop the others. If e has a method ExecuteAll, ExecuteAll calls it.
func ExecuteAll(ctx context.Context, e Executor, tasks []Task) []Ended {
	if fast, ok := e.(interface {
		ExecuteAll(ctx context.Context, tasks []Task) []Ended
	}); ok {
		return fast.ExecuteAll(ctx, tasks)
	}
	all := make([]Ended, len(tasks))
	var wait sync.WaitGroup
	for i, t := range tasks {
		all[i] = Ended{Index: i, Task: t}
		wait.Add(1)
		err := e.Submit(ctx, t, func(r Result, err error) {
			all[i].Result, all[i].Err = r, err
			wait.Done()
		})
		if err != nil {
			all[i].Err = err
			wait.Done()
		}
	}
	wait.Wait()
	return all
}
