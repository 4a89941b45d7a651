package queue

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/cron"
	"github.com/bullpen-run/bullpen/job"
)

// tickLog notes which ticks have run.
type tickLog struct {
	mu   sync.Mutex
	runs map[string]map[time.Time]int // by schedule and tick; guarded by mu
}

// work runs what schedules enqueue.
func (l *tickLog) work(t testing.TB, q *Queue) {
	t.Helper()
	l.runs = make(map[string]map[time.Time]int)
	workOn(t, q, newTeam(100, func(_ context.Context, task bullpen.Task) ([]byte, error) {
		d := AttemptOf(task)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.runs[d.Schedule] == nil {
			l.runs[d.Schedule] = make(map[time.Time]int)
		}
		l.runs[d.Schedule][d.Tick.UTC()]++
		return nil, nil
	}), WorkConfig{})
}

// check wants the ticks of a schedule to have run once each.
func (l *tickLog) check(t testing.TB, name string, from time.Time, want []time.Duration) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	got := slices.SortedFunc(maps.Keys(l.runs[name]), time.Time.Compare)
	var offsets []time.Duration
	for _, tick := range got {
		offsets = append(offsets, tick.Sub(from))
		if n := l.runs[name][tick]; n != 1 {
			t.Errorf("the tick %v of %q ran %d times", tick.Sub(from), name, n)
		}
	}
	if !slices.Equal(offsets, want) {
		t.Errorf("%q ran at %v\nwant %v", name, offsets, want)
	}
}

// TestScheduleNodes has three nodes, of which one after the other leaves: the
// others take over within a second and a half, at once when it says good-bye.
func TestScheduleNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &memory.Store{Shared: true}
		var l tickLog
		l.work(t, openOn(t, Config{Store: store}))
		nodes := make([]*Queue, 3)
		stops := make([]func(), 3)
		for i := range nodes {
			nodes[i] = openOn(t, Config{Store: store, Node: fmt.Sprint("n", i)})
			stops[i] = fireOn(t, nodes[i])
		}
		synctest.Wait()
		begin := time.Now()
		for i := range 20 {
			putSchedule(t, nodes[i%3], job.Schedule{Name: fmt.Sprint("s", i), Every: 10 * time.Second, Job: job.Job{Name: "a"}})
		}
		late := func(what string, most time.Duration) {
			t.Helper()
			for i := range 20 {
				l.check(t, fmt.Sprint("s", i), begin, every(10*time.Second, 1, int(time.Since(begin)/(10*time.Second))))
			}
			for _, q := range nodes {
				late := q.Stats().Schedules.Late
				if d := late.Quantile(1); d > most+most/4+time.Millisecond {
					t.Errorf("%s: one was %v late, want %v at most", what, d, most)
				}
			}
		}
		<-time.After(25 * time.Second)
		late("all are there", 0)
		stops[0]()
		<-time.After(10 * time.Second)
		late("one has said good-bye", 0)
		if err := nodes[1].Close(); err != nil { // it dies
			t.Error(err)
		}
		<-time.After(10 * time.Second)
		late("one has died", cron.HoldBack+cron.HoldMore)
		<-time.After(time.Minute)
		late("one is left", cron.HoldBack+cron.HoldMore)
		n := uint64(0)
		for _, q := range nodes {
			n += q.Stats().Schedules.Fired
		}
		if n != 20*10 {
			t.Errorf("the nodes count %d ticks, want each once: %d", n, 20*10)
		}
	})
}

// mortal is an engine that dies at one of its operations, as a process that is
// killed: before it is done, or after.
type mortal struct {
	engine.Engine
	left  *atomic.Int64 // operations until then
	after bool
}

// dies counts an operation; done says that it is done all the same.
func (m mortal) dies() (dead, done bool) {
	left := m.left.Add(-1)
	return left <= 0, left == 0 && m.after
}

func (m mortal) Put(p engine.Put, f func(uint64, error)) {
	dead, done := m.dies()
	switch {
	case !dead:
		m.Engine.Put(p, f)
	case done:
		m.Engine.Put(p, func(uint64, error) { f(0, engine.ErrClosed) })
	default:
		f(0, engine.ErrClosed)
	}
}

func (m mortal) Settle(f func(error)) {
	if dead, _ := m.dies(); dead {
		f(engine.ErrClosed)
		return
	}
	m.Engine.Settle(f)
}

func (m mortal) Get(ctx context.Context, s engine.Stream, subject string) (engine.Message, error) {
	if dead, _ := m.dies(); dead {
		return engine.Message{}, engine.ErrClosed
	}
	return m.Engine.Get(ctx, s, subject)
}

func (m mortal) Scan(ctx context.Context, s engine.Stream, subject string, from uint64, limit int) ([]engine.Message, error) {
	if dead, _ := m.dies(); dead {
		return nil, engine.ErrClosed
	}
	return m.Engine.Scan(ctx, s, subject, from, limit)
}

func (m mortal) Send(subject string, b []byte) error {
	dead, done := m.dies()
	if dead && !done {
		return engine.ErrClosed
	}
	return m.Engine.Send(subject, b)
}

// mortals is a store that opens such engines.
type mortals struct {
	Store
	left  atomic.Int64
	after bool
}

func newMortals(s Store, after bool) *mortals {
	m := &mortals{Store: s, after: after}
	m.left.Store(1 << 30)
	return m
}

func (s *mortals) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	e, err := s.Store.Open(ctx, o)
	return mortal{e, &s.left, s.after}, err
}

// TestScheduleKilled kills a node at each of its operations, before and after it
// is done. Another one goes on: at once where nodes share a store, and some ticks
// later where one is started again. Each tick runs once, whatever the rule for
// missed ones says of those that nobody fired.
func TestScheduleKilled(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		for _, overlap := range []job.Overlap{job.OverlapAllow, job.OverlapForbid} {
			t.Run(fmt.Sprint("shared ", shared, " ", overlap), func(t *testing.T) {
				t.Parallel()
				steps := 0
				for alive := false; !alive; steps++ {
					for _, after := range []bool{false, true} {
						synctest.Test(t, func(t *testing.T) {
							alive = killed(t, shared, overlap, 1+steps, after)
						})
					}
				}
				t.Logf("killed at %d steps, twice each", steps-1)
				if steps < 10 {
					t.Error("that are too few: does the node do anything?")
				}
			})
		}
	}
}

// killed has a node that dies at its nth operation; it tells whether it lived on.
func killed(t *testing.T, shared bool, overlap job.Overlap, n int, after bool) (alive bool) {
	t.Helper()
	store := &memory.Store{Shared: shared}
	var l tickLog
	watcher := openOn(t, Config{Store: store, Node: "watcher"})
	l.work(t, watcher)
	begin := time.Now()
	names := map[string]job.Missed{"once": job.MissedOnce, "all": job.MissedAll}
	for name, missed := range names {
		putSchedule(t, watcher, job.Schedule{Name: name, Every: 15 * time.Second, Missed: missed, Overlap: overlap, Job: job.Job{Name: "a"}})
	}
	dying := newMortals(store, after)
	first := openOn(t, Config{Store: dying, Node: "first"})
	synctest.Wait() // its start is over
	dying.left.Store(int64(n))
	fireOn(t, first)
	<-time.After(20 * time.Second)
	if shared { // now, so that the first one has all ticks until it dies
		fireOn(t, openOn(t, Config{Store: store, Node: "second"}))
	}
	<-time.After(30 * time.Second)
	synctest.Wait()
	alive = dying.left.Load() > 0
	dying.left.Store(min(dying.left.Load(), 0)) // it is dead now at the latest
	// Where there is no other node, the third tick and more are missed.
	<-time.After(42 * time.Second)
	synctest.Wait()
	if !shared {
		fireOn(t, openOn(t, Config{Store: store, Node: "again"}))
	}
	<-time.After(30 * time.Second)
	synctest.Wait()
	if shared || overlap == job.OverlapAllow { // else most of the missed ones overlap
		l.check(t, "all", begin, every(15*time.Second, 1, 8))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range names {
		i := getSchedule(t, watcher, name)
		if runs := len(l.runs[name]); i.Fired != uint64(runs) || i.Fired+i.Skipped != 8 {
			t.Errorf("step %d, after %v: %q counts %d fired and %d skipped, want %d and %d", n, after, name, i.Fired, i.Skipped, runs, 8-runs)
		}
		for tick, runs := range l.runs[name] {
			if runs != 1 {
				t.Errorf("step %d, after %v: the tick %v of %q ran %d times", n, after, tick.Sub(begin), name, runs)
			}
		}
	}
	return alive
}

// TestScheduleDoubt kills a node when it has put a job and not noted it. Until it is
// started again, somebody sends the schedule's jobs elsewhere: the tick has its job
// all the same, and gets no second one.
func TestScheduleDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &memory.Store{}
		watcher := openOn(t, Config{Store: store})
		begin := time.Now()
		s := job.Schedule{Name: "a", Every: time.Minute, Job: job.Job{Name: "a"}}
		putSchedule(t, watcher, s)
		dying := newMortals(store, true)
		first := openOn(t, Config{Store: dying})
		stop := fireOn(t, first)
		synctest.Wait()
		dying.left.Store(1)
		<-time.After(time.Minute)
		synctest.Wait()
		stop()
		if got := ticked(t, watcher, "a", begin); len(got) != 1 || getSchedule(t, watcher, "a").Fired != 0 {
			t.Fatalf("the test wants a job that is not noted: %v", got)
		}
		s.Job.Queue, s.Job.Priority = "other", job.High
		putSchedule(t, watcher, s)
		<-time.After(5 * time.Second) // so soon it is not missed
		fireOn(t, openOn(t, Config{Store: store}))
		<-time.After(time.Minute)
		synctest.Wait()
		if got, want := ticked(t, watcher, "a", begin), every(time.Minute, 1, 2); !slices.Equal(got, want) {
			t.Errorf("the ticks %v, want %v", got, want)
		}
		if i := getSchedule(t, watcher, "a"); i.Fired != 2 {
			t.Errorf("%+v", i)
		}
	})
}

// TestScheduleChaos has three nodes whose clocks differ by seconds, and that are
// killed and started again at any time. Each tick runs once.
func TestScheduleChaos(t *testing.T) {
	t.Parallel()
	seed, rounds := uint64(time.Now().UnixNano()), 5
	if os.Getenv("BULLPEN_LONG") != "" {
		rounds = 300
	}
	if s := os.Getenv("BULLPEN_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("BULLPEN_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range rounds {
		synctest.Test(t, func(t *testing.T) { chaos(t, rnd) })
	}
}

func chaos(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	store := &memory.Store{Shared: true}
	var l tickLog
	watcher := openOn(t, Config{Store: store, Node: "watcher"})
	l.work(t, watcher)
	periods := map[string]time.Duration{"a": time.Second, "b": 7 * time.Second, "c": 30 * time.Second}
	begin := time.Now()
	for name, d := range periods {
		putSchedule(t, watcher, job.Schedule{Name: name, Every: d, Missed: job.MissedAll, Job: job.Job{Name: "a"}})
	}
	nodes := make([]*Queue, 3)
	start := func(i int) {
		m := newMortals(store, rnd.IntN(2) == 0)
		nodes[i] = openOn(t, Config{Store: skewed{m, &skew{by: []time.Duration{-2 * time.Second, 0, 3 * time.Second}[i]}}, Node: fmt.Sprint("n", i)})
		synctest.Wait()
		m.left.Store(int64(1 + rnd.IntN(200)))
		fireOn(t, nodes[i])
	}
	for i := range nodes {
		start(i)
	}
	for time.Since(begin) < 4*time.Minute {
		<-time.After(time.Duration(rnd.Int64N(int64(10 * time.Second))))
		i := rnd.IntN(len(nodes))
		if err := nodes[i].Close(); err != nil {
			t.Error(err)
		}
		start(i)
	}
	// A node that lives to the end, of the right time.
	fireOn(t, openOn(t, Config{Store: store, Node: "last"}))
	end := begin.Add(time.Since(begin).Truncate(30*time.Second) + time.Minute)
	<-time.After(time.Until(end.Add(5 * time.Second)))
	synctest.Wait()
	for name, d := range periods {
		l.mu.Lock()
		for tick := range l.runs[name] {
			if tick.After(end) {
				delete(l.runs[name], tick)
			}
		}
		l.mu.Unlock()
		l.check(t, name, begin, every(d, 1, int(end.Sub(begin)/d)))
	}
}
