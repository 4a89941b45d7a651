package queuetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
)

// plan is what a job of the random clauses does: its payload names it.
type plan struct {
	bad     []bullpen.Outcome // of its first attempts that end by themselves
	final   bool              // then it fails for good
	refused int               // so often an executor does not start it
	cancel  bool              // somebody tries to cancel it
}

// model is what is known of all jobs of a random clause.
type model struct {
	f    *fixture
	seed uint64

	mu       sync.Mutex
	rand     *rand.Rand      // guarded by mu
	plans    []*plan         // guarded by mu
	ids      map[string]int  // the plan of a job; guarded by mu
	did      map[string]int  // attempts that ended by themselves; guarded by mu
	good     map[string]int  // good ends of handlers; guarded by mu
	canceled map[string]bool // Cancel has returned nil; guarded by mu
	restarts int             // guarded by mu
}

// seedVariable names the environment variable that repeats a random clause.
const seedVariable = "BULLPEN_SEED"

func newModel(f *fixture) *model {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64); err == nil {
		seed = s
	}
	f.t.Logf("%s=%d", seedVariable, seed)
	return &model{
		f: f, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), ids: map[string]int{},
		did: map[string]int{}, good: map[string]int{}, canceled: map[string]bool{},
	}
}

func (m *model) intn(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rand.IntN(n)
}

// job makes a plan and the job for it.
func (m *model) job() job.Job {
	p := &plan{cancel: m.intn(6) == 0, final: m.intn(8) == 0}
	for m.intn(3) == 0 && len(p.bad) < 2 {
		p.bad = append(p.bad, []bullpen.Outcome{bullpen.Failed, bullpen.Panic, bullpen.Crashed, bullpen.Memory, bullpen.Timeout}[m.intn(5)])
	}
	if m.intn(10) == 0 {
		p.refused = 1 + m.intn(2)
	}
	j := job.Job{Name: "random", Priority: job.Priority(m.intn(3))}
	if m.intn(4) == 0 {
		j.Delay = time.Duration(m.intn(100)) * time.Millisecond
	}
	if m.intn(2) == 0 {
		j.Group = fmt.Sprint("group ", m.intn(5))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j.Payload = fmt.Append(nil, len(m.plans))
	if m.rand.IntN(4) == 0 {
		j.Key = fmt.Sprint("key ", len(m.plans))
	}
	m.plans = append(m.plans, p)
	return j
}

// of finds the plan of a task.
func (m *model) of(t bullpen.Task) *plan {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := strconv.Atoi(string(t.Payload))
	if err != nil || i >= len(m.plans) {
		m.f.t.Errorf("a handler got the payload %q, which no job has", t.Payload)
		return &plan{}
	}
	if was, ok := m.ids[t.ID]; ok && was != i {
		m.f.t.Errorf("job %s came with the payload of %d and of %d", t.ID, was, i)
	}
	m.ids[t.ID] = i
	return m.plans[i]
}

func (m *model) handle(ctx context.Context, t bullpen.Task) ([]byte, error) {
	p := m.of(t)
	timer := time.NewTimer(time.Duration(m.intn(3000)) * time.Microsecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.did[t.ID]
	m.did[t.ID]++
	switch {
	case n < len(p.bad):
		return nil, ends(p.bad[n])
	case p.final:
		return nil, bullpen.Fail("as planned", false)
	}
	m.good[t.ID]++
	return append([]byte("done "), t.Payload...), nil
}

func (m *model) refuse(t bullpen.Task) error {
	p := m.of(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.refused > 0 {
		p.refused--
		return bullpen.ErrOverloaded
	}
	return nil
}

// staff starts Work on q.
func (m *model) staff(q *queue.Queue) *work {
	m.f.t.Helper()
	c := newExecutor(6, m.handle)
	c.refusing(m.refuse)
	return m.f.work(q, c, queue.WorkConfig{Grace: time.Duration(m.intn(20)) * time.Millisecond, Group: job.GroupLimits{Concurrency: 2}})
}

// enqueue enqueues n jobs, cancels some of them, and returns their ids.
func (m *model) enqueue(q *queue.Queue, n int) []string {
	f := m.f
	var ids []string
	for range n {
		j := m.job()
		ref, err := q.Enqueue(f.t.Context(), j)
		if err != nil {
			f.t.Errorf("Enqueue = %v", err)
			continue
		}
		ids = append(ids, ref.ID)
		if i, _ := strconv.Atoi(string(j.Payload)); m.plan(i).cancel {
			f.pass(time.Duration(m.intn(8)) * time.Millisecond)
			m.cancel(q, ref.ID)
		}
	}
	return ids
}

func (m *model) plan(i int) *plan {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.plans[i]
}

func (m *model) cancel(q *queue.Queue, id string) {
	err := q.Cancel(m.f.t.Context(), id)
	if err != nil && !errors.Is(err, job.ErrEnded) {
		m.f.t.Errorf("Cancel = %v, want nil or ErrEnded", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.canceled[id] = err == nil
}

// check is the oracle: each job that was accepted has exactly one outcome, which
// is one that its plan allows.
func (m *model) check(ids []string) {
	f := m.f
	f.t.Helper()
	for _, id := range ids {
		_, _ = f.wait(id) // looked at below
	}
	all := f.once(ids...)
	if len(all) != len(ids) {
		f.t.Errorf("%d outcomes are recorded of %d jobs", len(all), len(ids))
	}
	f.empty()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		info := all[id]
		i, ran := m.ids[id]
		r, err := f.wait(id)
		switch {
		case m.canceled[id] != (info.State == job.Canceled):
			f.t.Errorf("job %s: Cancel = nil is %v, and it is %v", id, m.canceled[id], info.State)
		case info.State == job.Canceled:
			if !errors.Is(err, context.Canceled) {
				f.t.Errorf("job %s is canceled, and Wait = %v", id, err)
			}
		case !ran:
			f.t.Errorf("job %s is %v and never ran", id, info.State)
		case m.plans[i].final:
			if info.State != job.Dead || info.Outcome != bullpen.Failed || info.Reason != job.Final {
				f.t.Errorf("job %s is %v, %v, %s, want it to fail for good", id, info.State, info.Outcome, info.Reason)
			}
		default:
			if want := fmt.Sprint("done ", i); info.State != job.Done || err != nil || string(r.Payload) != want || info.ResultSize != len(want) || info.Result != nil {
				f.t.Errorf("job %s is %v, %v, with %q, want done with %q", id, info.State, err, r.Payload, want)
			}
			if m.good[id] < 1 || m.restarts == 0 && m.good[id] != 1 {
				f.t.Errorf("job %s ended well %d times, want once", id, m.good[id])
			}
		}
	}
}

// nobodyDied wants that no job was taken for one whose node died.
func (f *fixture) nobodyDied(q *queue.Queue) {
	f.t.Helper()
	if n := q.Stats().Redelivered; n != 0 {
		f.t.Errorf("Stats says %d jobs came again after the death of a node, and none died", n)
	}
}

func testRandom(f *fixture) {
	f.open(queue.Config{})
	m := newModel(f)
	m.staff(f.Queue)
	m.staff(f.Queue)
	m.check(m.enqueue(f.Queue, 300))
	f.nobodyDied(f.Queue)
}

// testRandomRestarts ends Work, and closes the queue, in the midst.
func testRandomRestarts(f *fixture) {
	f.open(queue.Config{Lease: f.subject.Lease})
	m := newModel(f)
	var ids []string
	for round := range 4 {
		w := m.staff(f.Queue)
		ids = append(ids, m.enqueue(f.Queue, 60)...)
		if round%2 == 0 {
			w.stop()
			m.staff(f.Queue)
			ids = append(ids, m.enqueue(f.Queue, 20)...)
		}
		m.mu.Lock()
		m.restarts++
		m.mu.Unlock()
		f.reopen()
	}
	m.staff(f.Queue)
	m.check(ids)
}

func testRandomNodes(f *fixture) {
	f.open(queue.Config{})
	m := newModel(f)
	other := f.another()
	m.staff(f.Queue)
	m.staff(other)
	var mine, theirs []string
	var group sync.WaitGroup
	group.Go(func() { mine = m.enqueue(f.Queue, 120) })
	group.Go(func() { theirs = m.enqueue(other, 120) })
	group.Wait()
	m.check(slices.Concat(mine, theirs))
	f.nobodyDied(f.Queue)
	f.nobodyDied(other)
}

// testPlaces runs bursts of one priority after the other on an executor whose places
// come and go: none of a priority has to wait for places that are kept for another.
func testPlaces(f *fixture) {
	f.open(queue.Config{})
	m := newModel(f)
	var places atomic.Int64
	c := newExecutor(60, func(context.Context, bullpen.Task) ([]byte, error) {
		places.Store(int64(1 + m.intn(3)*m.intn(20)))
		return nil, nil
	})
	places.Store(int64(c.size))
	c.places = func() int { return int(places.Load()) }
	f.work(f.Queue, c, queue.WorkConfig{})
	for range 40 {
		var ids []string
		for range 1 + m.intn(3) {
			ids = append(ids, f.enqueueAll(jobs(1+m.intn(2)*m.intn(120), job.Job{Name: "burst", Priority: job.Priority(m.intn(3))}))...)
		}
		for _, id := range ids {
			f.good(id)
		}
	}
}
