package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/batch"
	"github.com/bullpen-run/bullpen/job"
)

// crash makes a store die at a put, for all who have it open, until it is healed.
type crash struct {
	store  *memory.Store
	at     int64 // the number of the put; 0 for never
	stored bool  // whether that put is stored still
	puts   atomic.Int64
	dead   context.Context //nolint:containedctx // it ends when the store dies
	died   atomic.Bool
}

func (c *crash) arm() {
	var die context.CancelFunc
	c.dead, die = context.WithCancel(context.Background())
	c.store.Inject(func(o memory.Operation) memory.Fault {
		if c.died.Load() {
			return memory.Fault{Err: engine.ErrClosed}
		}
		if o.Name == "put" && c.puts.Add(1) == c.at && c.died.CompareAndSwap(false, true) {
			die()
			return memory.Fault{Err: engine.ErrClosed, Stored: c.stored}
		}
		return memory.Fault{}
	})
}

func (c *crash) heal() {
	c.store.Inject(nil)
	c.died.Store(false)
}

// runLog is what handlers have done.
type runLog struct {
	mu   sync.Mutex
	runs map[string]int    // by job; guarded by mu
	name map[string]string // of a job; guarded by mu
	ends map[string]int    // how often it had run when its outcome was there; owned by the test
}

// handle runs a member, a job of its chain, or a callback.
func (l *runLog) handle(_ context.Context, t bullpen.Task) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[t.ID]++
	l.name[t.ID] = t.Name
	if t.Name == "bad" {
		return nil, errors.New("it went wrong")
	}
	return append(append([]byte(nil), t.Payload...), t.Name...), nil
}

// ofName gives the jobs that ran a task.
func (l *runLog) ofName(name string) (ids []string) {
	for id, n := range l.name {
		if n == name {
			ids = append(ids, id)
		}
	}
	return ids
}

func crashBatch() (job.Batch, []job.Job) {
	return job.Batch{
			Key: "batch", Then: &job.Job{Name: "then", Then: []job.Job{{Name: "after"}}}, Failed: &job.Job{Name: "failed"},
		}, []job.Job{
			{Name: "a"}, {Name: "bad"}, {Name: "b", Then: []job.Job{{Name: "c"}, {Name: "d", Delay: time.Second}}}, {Name: "a"}, {Name: "b", Then: []job.Job{{Name: "bad"}, {Name: "never"}}},
		}
}

// life opens the store, enqueues the batch, and works until all has ended or the
// store has died.
func life(t *testing.T, c *crash, l *runLog) (job.BatchInfo, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	q, err := Open(ctx, Config{Store: c.store, Lease: 10 * time.Second, Retry: job.Retry{Attempts: 1, Nodes: 100}})
	if err != nil {
		return job.BatchInfo{}, err
	}
	work, stop := context.WithCancel(ctx)
	var worked sync.WaitGroup
	worked.Go(func() { q.Work(work, newTeam(2, l.handle), WorkConfig{Grace: time.Second}) }) //nolint:errcheck // it may die with its store
	defer context.AfterFunc(c.dead, cancel)()
	b, jobs := crashBatch()
	i, err := q.EnqueueBatch(ctx, b, jobs)
	if err == nil {
		i, err = q.WaitBatch(ctx, i.ID)
	}
	if err == nil {
		_, err = q.WaitChain(ctx, i.ThenID)
	}
	if err == nil {
		_, err = q.Wait(ctx, i.FailedID)
	}
	for err == nil { // what has ended has still to leave
		s, err2 := q.Status(ctx)
		if err = err2; s.Jobs.Messages == 0 {
			break
		}
		<-time.After(time.Second)
	}
	stop()
	worked.Wait()
	q.Close() // it may have died
	return i, err
}

// check holds what has happened against what must have.
func (l *runLog) check(t *testing.T, c *crash, i job.BatchInfo, crashes int) {
	t.Helper()
	if i.State != job.BatchDone || i.Total != 5 || i.OK != 3 || i.Failed != 2 || i.Lost != 0 {
		t.Errorf("the batch is %+v", i)
	}
	for name, want := range map[string]int{"a": 2, "bad": 2, "b": 2, "c": 1, "d": 1, "never": 0, "then": 1, "after": 1, "failed": 1} {
		if ids := l.ofName(name); len(ids) != want {
			t.Errorf("task %s ran as %d jobs, want %d", name, len(ids), want)
		}
	}
	for id, n := range l.runs {
		if n > 1+crashes || l.ends[id] != n {
			t.Errorf("job %s (%s) ran %d times with %d crashes, and %d times before its outcome was there", id, l.name[id], n, crashes, l.ends[id])
		}
	}
	<-time.After(2 * batch.TickPause)
	q, err := Open(t.Context(), Config{Store: c.store})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close() // it is only read
	page, err := q.List(t.Context(), job.Filter{States: []job.State{job.Done, job.Dead, job.Canceled}, Limit: 100})
	if err != nil || len(page.Jobs) != len(l.runs) {
		t.Errorf("%d outcomes, %v, want %d", len(page.Jobs), err, len(l.runs))
	}
	synctest.Wait() // until what is left of a crash is cleared up
	e := rawEngine(t, c.store)
	if left, err := e.Scan(t.Context(), engine.State, "set.bend.>", 1, 10); err != nil || len(left) > 0 {
		t.Errorf("%d counts of the batch are left, %v", len(left), err)
	}
}

// see notes which jobs have an outcome, and how often they have run by then.
func (l *runLog) see(t *testing.T, s *memory.Store) {
	t.Helper()
	page, err := rawEngine(t, s).Scan(t.Context(), engine.Outcomes, "out.*", 1, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range page {
		id := engine.LastToken(m.Subject)
		if _, known := l.ends[id]; !known {
			l.ends[id] = l.runs[id]
		}
	}
}

// crashes runs a batch on a store that dies at some puts, and checks the end.
func crashes(t *testing.T, shared bool, stored bool, at ...int64) (puts int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crash{store: &memory.Store{Shared: shared}, stored: stored}
		l := &runLog{runs: make(map[string]int), name: make(map[string]string), ends: make(map[string]int)}
		var i job.BatchInfo
		n := 0
		for _, c.at = range append(at, 0) {
			c.puts.Store(0)
			c.arm()
			var err error
			i, err = life(t, c, l)
			if c.died.Load() {
				n++
			} else if err != nil {
				t.Fatalf("without a crash: %v", err)
			}
			puts = c.puts.Load()
			c.heal()
			l.see(t, c.store)
		}
		l.check(t, c, i, n)
	})
	return puts
}

// TestBatchCrashes dies at each put of a batch with chains and callbacks: before it
// is stored, and after.
func TestBatchCrashes(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		puts := crashes(t, shared, false)
		if puts < 25 {
			t.Fatalf("the batch took %d puts: the test does not see them", puts)
		}
		for n := range puts {
			for _, stored := range []bool{false, true} {
				t.Run(fmt.Sprintf("shared=%t/put=%d/stored=%t", shared, n+1, stored), func(t *testing.T) {
					t.Parallel()
					crashes(t, shared, stored, n+1)
				})
			}
		}
	}
}

// TestBatchCrashesAgain dies several times, at puts of chance.
func TestBatchCrashesAgain(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, uint64(time.Now().UnixNano())))
	for range 60 {
		at := make([]int64, 1+rnd.IntN(5))
		for i := range at {
			at[i] = 1 + rnd.Int64N(20)
		}
		shared, stored := rnd.IntN(2) == 0, rnd.IntN(2) == 0
		t.Run(fmt.Sprintf("shared=%t/stored=%t/%v", shared, stored, at), func(t *testing.T) {
			t.Parallel()
			crashes(t, shared, stored, at...)
		})
	}
}
