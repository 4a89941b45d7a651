package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

func TestStanding(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	stuck := sample{known: true, waiting: 1, room: true}
	with := func(change func(*sample)) sample {
		s := stuck
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		samples []sample
		since   int // index of the sample since which it stands; -1 for none
	}{
		"one look":       {[]sample{stuck}, -1},
		"stuck":          {[]sample{stuck, stuck, stuck}, 0},
		"late":           {[]sample{with(func(s *sample) { s.waiting = 0 }), stuck, stuck}, 1},
		"takes":          {[]sample{stuck, stuck, with(func(s *sample) { s.taken = 1 })}, -1},
		"took":           {[]sample{stuck, with(func(s *sample) { s.taken = 1 }), with(func(s *sample) { s.taken = 1 })}, 1},
		"paused":         {[]sample{stuck, stuck, with(func(s *sample) { s.paused = true })}, -1},
		"no room":        {[]sample{stuck, stuck, with(func(s *sample) { s.room = false })}, -1},
		"no workers":     {[]sample{stuck, stuck, with(func(s *sample) { s.failing = true })}, -1},
		"store is away":  {[]sample{stuck, stuck, with(func(s *sample) { s.known = false })}, -1},
		"nothing waits":  {[]sample{stuck, stuck, with(func(s *sample) { s.waiting = 0 })}, -1},
		"was away":       {[]sample{stuck, with(func(s *sample) { s.known = false }), stuck, stuck}, 2},
		"many more wait": {[]sample{stuck, with(func(s *sample) { s.waiting = 9 })}, 0},
	} {
		var since time.Time
		for i := range c.samples {
			c.samples[i].at = begin.Add(time.Duration(i) * sampleEvery)
			if i > 0 {
				since = standing(since, c.samples[i-1], c.samples[i])
			}
		}
		var want time.Time
		if c.since >= 0 {
			want = c.samples[c.since].at
		}
		if !since.Equal(want) {
			t.Errorf("%s: it stands since %v, want %v", name, since, want)
		}
	}
}

func TestRunActors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		dies  int   // which one ends by itself; -1 for none
		with  error // what it ends with
		late  error // what the last one ends with
		want  []string
		words []string
	}{
		"stopped":       {-1, nil, nil, []string{"a", "b", "c"}, nil},
		"one dies":      {1, broken, nil, []string{"b", "a", "c"}, []string{"b: broken"}},
		"one just ends": {0, nil, nil, []string{"a", "b", "c"}, []string{"a: it ended by itself"}},
		"fault at end":  {-1, nil, broken, []string{"a", "b", "c"}, []string{"c: broken"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var mu sync.Mutex
				var ended []string // guarded by mu
				end := func(name string) {
					mu.Lock()
					defer mu.Unlock()
					ended = append(ended, name)
				}
				var actors []actor
				for i, name := range []string{"a", "b", "c"} {
					actors = append(actors, actor{name, func(ctx context.Context) error {
						if i != c.dies {
							<-ctx.Done()
							<-time.After(time.Second) // the next one waits for this
						}
						end(name)
						return map[int]error{2: c.late, c.dies: c.with}[i]
					}})
				}
				if c.dies < 0 {
					cancel()
				}
				err := runActors(ctx, slog.New(slog.DiscardHandler), actors)
				cancel()
				if !slices.Equal(ended, c.want) {
					t.Errorf("ended in the order %v, want %v", ended, c.want)
				}
				if (err == nil) != (c.words == nil) {
					t.Errorf("runActors = %v", err)
				}
				for _, w := range c.words {
					if !strings.Contains(fmt.Sprint(err), w) {
						t.Errorf("runActors = %v, want it to say %q", err, w)
					}
				}
			})
		})
	}
}

// rooms is an executor with some places, whose tasks end when the test says so.
type rooms struct {
	bullpen.Executor

	free   int
	signal bullpen.RoomSignal
	dones  []func(bullpen.Result, error)
	fault  error
}

func (e *rooms) Capacity() int { return e.free }

func (e *rooms) Room() <-chan struct{} {
	c := e.signal.Next()
	if e.free > 0 {
		e.signal.Notify()
	}
	return c
}

func (e *rooms) Submit(_ context.Context, _ bullpen.Task, done func(bullpen.Result, error)) error {
	if e.fault != nil {
		return e.fault
	}
	e.dones = append(e.dones, done)
	return nil
}

// TestLimiter: the bound of jobs in hand holds, whatever room there is beyond it.
func TestLimiter(t *testing.T) {
	t.Parallel()
	e := &rooms{free: 5}
	g := newLimiter(e, 2)
	submit := func() error {
		return g.Submit(t.Context(), bullpen.Task{}, func(bullpen.Result, error) {})
	}
	capacity := func(want int) {
		t.Helper()
		if n := g.Capacity(); n != want {
			t.Errorf("Capacity = %d, want %d", n, want)
		}
	}
	for want := 2; want > 0; want-- {
		capacity(want)
		if err := submit(); err != nil {
			t.Fatal(err)
		}
	}
	capacity(0)
	e.dones[0](bullpen.Result{}, nil)
	capacity(1)
	e.fault = bullpen.ErrOverloaded
	if err := submit(); !errors.Is(err, bullpen.ErrOverloaded) {
		t.Errorf("Submit = %v", err)
	}
	capacity(1)
	g.waiting(1)
	capacity(2)
	g.bound(0)
	capacity(5)
	e.free = 0
	capacity(0)
	if n := g.taken.Load(); n != 3 {
		t.Errorf("%d jobs were handed over, want 3", n)
	}
}

// TestRoomOfLimiter has each way in which room comes behind a limiter.
func TestRoomOfLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &rooms{free: 1}
		g := newLimiter(e, 1)
		open := func() <-chan struct{} {
			t.Helper()
			room := g.Room()
			select {
			case <-room:
				t.Error("the limiter signals room and has none")
			default:
			}
			return room
		}
		if g.Capacity() == 1 {
			<-g.Room()
		}
		if err := g.Submit(t.Context(), bullpen.Task{}, func(bullpen.Result, error) {}); err != nil {
			t.Fatal(err)
		}
		room := open() // within, not by the bound
		g.waiting(1)
		<-room
		g.waiting(0)
		room = open()
		g.bound(2)
		<-room
		g.bound(1)
		room = open()
		e.dones[0](bullpen.Result{}, nil)
		<-room

		e.free = 0
		one, two := open(), open() // by the bound, not within
		e.free = 1
		e.signal.Notify()
		<-one
		<-two
		<-g.Room()
	})
}

func TestOver(t *testing.T) {
	t.Parallel()
	by := job.Retry{Attempts: 7, Backoff: time.Second, MaxBackoff: time.Minute, Crashes: 2, Nodes: 3, On: []bullpen.Outcome{bullpen.Lost}}
	if got := over(job.Retry{}, by); fmt.Sprint(got) != fmt.Sprint(by) {
		t.Errorf("over of nothing = %v", got)
	}
	if got := over(job.Retry{Attempts: 1, On: []bullpen.Outcome{bullpen.Panic}}, by); got.Attempts != 1 || len(got.On) != 1 || got.On[0] != bullpen.Panic || got.Crashes != 2 {
		t.Errorf("over = %v", got)
	}
}

// TestScaleWhileBusy shows that workers which come while all others are at work
// get jobs at once.
func TestScaleWhileBusy(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 1, max: 1}"))
	flag := filepath.Join(t.TempDir(), "go")
	first := n.background("/v1/pools/one/jobs?task=hold&wait=1m", flag)
	eventually(t, "the first job runs", func() bool { return exists(flag + ".begun") })
	n.want(http.StatusAccepted, http.MethodPost, "/v1/pools/one/jobs?priority=high", "second")
	third := n.background("/v1/pools/one/jobs?wait=1m", "third")
	eventually(t, "the third job waits", func() bool {
		return strings.Contains(n.ask(http.MethodGet, "/v1/pools/one", "").body, `"waiting":1`)
	})
	n.want(http.StatusOK, http.MethodPost, "/v1/pools/one/scale", `{"max":2}`)
	if a := third.wait(); a.body != "third" {
		t.Errorf("the job that waited: %d %s", a.status, a.body)
	}
	touch(t, flag)
	if a := first.wait(); a.body != "held" {
		t.Errorf("the job that ran: %d %s", a.status, a.body)
	}
	n.want(http.StatusBadRequest, http.MethodPost, "/v1/pools/one/scale", `{"min":5}`)
	if p := n.shown("one"); p.Min != 1 || p.Max != 2 {
		t.Errorf("its size is %d..%d after a scale that was refused", p.Min, p.Max)
	}
}

// TestEphemeralMakesRoom shows that a job gets the worker that an ephemeral task
// has left, while another job runs.
func TestEphemeralMakesRoom(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 2, max: 2}"))
	folder := t.TempDir()
	a, b := filepath.Join(folder, "a"), filepath.Join(folder, "b")
	job := n.background("/v1/pools/one/jobs?task=hold&wait=1m", a)
	task := n.background("/v1/pools/one/run?task=hold", b)
	eventually(t, "both workers are busy", func() bool { return exists(a+".begun") && exists(b+".begun") })
	second := n.background("/v1/pools/one/jobs?wait=1m", "second")
	touch(t, b)
	if got := task.wait(); got.body != "held" {
		t.Errorf("the ephemeral task: %d %s", got.status, got.body)
	}
	if got := second.wait(); got.body != "second" {
		t.Errorf("the second job: %d %s", got.status, got.body)
	}
	touch(t, a)
	if got := job.wait(); got.body != "held" {
		t.Errorf("the first job: %d %s", got.status, got.body)
	}
}

func TestEphemeralIDs(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 1, max: 2}"), "  durable: {command: [cat], protocol: lines}\n  elsewhere: {}\n")
	flag := filepath.Join(t.TempDir(), "never")
	task := n.background("/v1/pools/one/run?task=hold&id=mine", flag)
	eventually(t, "the task runs", func() bool { return exists(flag + ".begun") })
	if a := n.want(http.StatusConflict, http.MethodPost, "/v1/pools/one/run?id=mine", "x"); cause(t, a) != "busy-id" {
		t.Errorf("the same id: %s", a.body)
	}
	n.want(http.StatusNotFound, http.MethodDelete, "/v1/run/other", "")
	n.want(http.StatusNoContent, http.MethodDelete, "/v1/run/mine", "")
	if a := task.wait(); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, `"outcome":"canceled"`) {
		t.Errorf("the task that was canceled: %d %s", a.status, a.body)
	}
	n.want(http.StatusOK, http.MethodPost, "/v1/pools/one/run?id=mine", "again")
	n.want(http.StatusForbidden, http.MethodPost, "/v1/pools/durable/run", "x")
	if a := n.ask(http.MethodPost, "/v1/pools/elsewhere/run", "x"); a.status < 400 || a.status > 499 {
		t.Errorf("a pool without workers: %d %s", a.status, a.body)
	}
	n.want(http.StatusAccepted, http.MethodPost, "/v1/pools/elsewhere/jobs", "x")
	if p := n.shown("elsewhere"); p.State != "queue-only" {
		t.Errorf("state %q", p.State)
	}
	n.want(http.StatusNotFound, http.MethodPost, "/v1/pools/none/run", "x")
}

// TestStuckPool shows that a pool which takes nothing makes the probe say no.
func TestStuckPool(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 1}"))
	n.examine(t.Context())
	n.want(http.StatusOK, http.MethodGet, "/livez", "")
	n.health.mu.Lock()
	if n.health.pools["one"] == nil {
		n.health.mu.Unlock()
		t.Fatal("the pool was not examined")
	}
	n.health.pools["one"].since = time.Now().Add(-2 * stuckAfter)
	n.health.mu.Unlock()
	if a := n.want(http.StatusServiceUnavailable, http.MethodGet, "/livez", ""); !strings.Contains(a.body, "FAIL pool one") {
		t.Errorf("livez: %s", a.body)
	}
	n.examine(t.Context()) // nothing waits
	n.want(http.StatusOK, http.MethodGet, "/livez", "")
}

// TestProbes shows that probes on an address of their own answer from before the
// queue is open until after it is closed, and nothing else does.
func TestProbes(t *testing.T) {
	t.Parallel()
	n := open(t, mine(t, "one", "workers: {min: 1}"), "probes: {listen: '127.0.0.1:0'}\n")
	probes := &node{t: t, url: "http://" + n.ProbesAddr().String()}
	probes.want(http.StatusOK, http.MethodGet, "/livez", "")
	probes.want(http.StatusServiceUnavailable, http.MethodGet, "/readyz", "")
	probes.want(http.StatusServiceUnavailable, http.MethodGet, "/metrics", "")
	n.begin()
	<-n.Ready()
	probes.want(http.StatusOK, http.MethodGet, "/readyz", "")
	a := probes.want(http.StatusOK, http.MethodGet, "/metrics", "")
	for _, name := range []string{"bullpen_process_workers{", `queue="one"`, "bullpen_build_info{version=\"test\"} 1", "bullpen_ready 1", "go_goroutines"} {
		if !strings.Contains(a.body, name) {
			t.Errorf("%s is not among the metrics", name)
		}
	}
	probes.want(http.StatusNotFound, http.MethodGet, "/v1/status", "")
}

// TestWorkersThatDoNotStart shows what is reported of a pool that cannot work.
func TestWorkersThatDoNotStart(t *testing.T) {
	t.Parallel()
	bad := "  bad: {command: [sh, -c, 'echo it is broken >&2; exit 3'], workers: {min: 1, max: 1}}\n"
	n := open(t, bad)
	n.begin()
	eventually(t, "the error is shown", func() bool { return strings.Contains(n.shown("bad").Error, "exit code 3") })
	if a := n.want(http.StatusServiceUnavailable, http.MethodGet, "/readyz", ""); !strings.Contains(a.body, "FAIL pool bad: its workers do not start") {
		t.Errorf("readyz: %s", a.body)
	}
	n.want(http.StatusOK, http.MethodGet, "/livez", "")
	n.write(bad, mine(t, "good", "workers: {min: 1}"))
	n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
	eventually(t, "one pool that works is enough", func() bool { return n.ask(http.MethodGet, "/readyz", "").status == http.StatusOK })
}
