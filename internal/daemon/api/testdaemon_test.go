package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/live"
	"github.com/bullpen-run/bullpen/internal/level"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
)

// testDaemon is a daemon for tests: pools of goroutines over a queue in memory. Pool
// "main" takes ephemeral tasks, "kept" does not, "far" has no workers here.
type testDaemon struct {
	queue    *queue.Queue
	hub      *live.Hub
	pool     *pool.Pool
	executor bullpen.Executor
	stop     chan struct{}
	release  chan struct{} // lets tasks named "hold" end

	mu        sync.Mutex
	runs      map[string]context.CancelFunc // guarded by mu
	made      int                           // guarded by mu
	waiting   map[string]int                // guarded by mu
	scaled    [2]int                        // guarded by mu
	fails     error                         // what Scale, ReloadPool and Reload answer; guarded by mu
	following bool                          // guarded by mu
	workers   int                           // guarded by mu
	looks     int                           // how often it was asked for the overview; guarded by mu
	depth     int                           // that the overview tells; guarded by mu
	recycled  []string                      // guarded by mu
}

var handlers = map[string]bullpen.Handler{
	"echo":  func(_ context.Context, t bullpen.Task) ([]byte, error) { return t.Payload, nil },
	"fail":  func(context.Context, bullpen.Task) ([]byte, error) { return nil, bullpen.Fail("no <such> file", false) },
	"again": func(context.Context, bullpen.Task) ([]byte, error) { return nil, bullpen.Fail("not now", true) },
	"panic": func(context.Context, bullpen.Task) ([]byte, error) { panic("at the disco") },
	"meta": func(_ context.Context, t bullpen.Task) ([]byte, error) {
		var all []string
		for k, v := range t.Meta {
			if !strings.HasPrefix(k, "bullpen.") {
				all = append(all, fmt.Sprintf("%s=%q", k, v))
			}
		}
		slices.Sort(all)
		return []byte(strings.Join(all, " ")), nil
	},
	"flood": func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		line := bullpen.LogLine{Stream: "stdout", Text: strings.Repeat("x", 4<<10)}
		for ctx.Err() == nil {
			t.Observer.Log(line)
		}
		return nil, context.Cause(ctx)
	},
	"wait": func(ctx context.Context, _ bullpen.Task) ([]byte, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	},
	"talk": func(_ context.Context, t bullpen.Task) ([]byte, error) {
		t.Observer.Progress(0.5, "half")
		for n := range 3 {
			t.Observer.Log(bullpen.LogLine{Time: time.Now(), Level: 4, Stream: "log", Text: fmt.Sprintf("line %d\nof %s", n, t.Payload)})
		}
		return []byte("said"), nil
	},
}

func newTestDaemon(t testing.TB) *testDaemon {
	t.Helper()
	release := make(chan struct{})
	all := map[string]bullpen.Handler{
		"hold": func(ctx context.Context, t bullpen.Task) ([]byte, error) {
			t.Observer.Log(bullpen.LogLine{Time: time.Now(), Stream: "stdout", Text: "holding"})
			select {
			case <-release:
				return []byte("let go"), nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		},
	}
	maps.Copy(all, handlers)
	h := testDaemonOf(t, pool.Config{Max: 8, Handlers: all, Overflow: pool.Reject})
	h.release = release
	return h
}

// testDaemonOf returns a daemon whose pools share the workers of c.
func testDaemonOf(t testing.TB, c pool.Config) *testDaemon {
	t.Helper()
	h := &testDaemon{
		stop: make(chan struct{}), runs: map[string]context.CancelFunc{}, waiting: map[string]int{}, following: true, workers: c.Max,
	}
	var err error
	if h.hub, err = live.New(live.Config{}); err != nil {
		t.Fatal(err)
	}
	if h.pool, err = pool.New(c); err != nil {
		t.Fatal(err)
	}
	h.executor = h.hub.Wrap("main", h.pool)
	if h.queue, err = queue.Open(t.Context(), queue.Config{Store: queue.Memory(), Retry: job.Retry{Attempts: 2, Backoff: time.Millisecond}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for _, name := range []string{"main", "kept"} {
		work.Go(func() { // ends with ctx; the cleanup waits for it
			if err := h.queue.Work(ctx, h.executor, queue.WorkConfig{Queue: name, Grace: -1}); err != nil {
				t.Errorf("work on %s: %v", name, err)
			}
		})
	}
	t.Cleanup(func() {
		h.end()
		cancel()
		h.pool.Close() // tasks that ignore their context are the tests' own
		work.Wait()
		if err := h.queue.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// end begins to stop. It may be called again.
func (h *testDaemon) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.stop:
	default:
		close(h.stop)
	}
}

func (h *testDaemon) Queue() *queue.Queue       { return h.queue }
func (h *testDaemon) Pools() []string           { return []string{"far", "kept", "main"} }
func (h *testDaemon) Stopping() <-chan struct{} { return h.stop }

func (h *testDaemon) Status() Status {
	return Status{Version: "test", Node: "node", Started: time.Now().Add(-time.Minute), Ready: true, Live: true, LogLinesDropped: 3}
}

func (h *testDaemon) Pool(_ context.Context, name string) (Pool, error) {
	if !slices.Contains(h.Pools(), name) {
		return Pool{}, fmt.Errorf("%w: %q", ErrNoPool, name)
	}
	outcomes := map[bullpen.Outcome]uint64{}
	outcomes[bullpen.Crashed] = 2
	p := Pool{
		Name: name, Task: "echo", Ephemeral: name == "main", Helpers: 1, Error: "exec: no such file",
		Config: level.Config{Protocol: "lines", Program: "cat", Min: 1, Max: 8},
		Stats:  level.Stats{State: "open", Idle: 1, Busy: 2, Accepted: 7, Outcomes: outcomes, Deaths: map[string]uint64{"crash": 2}},
	}
	p.QueueTime.Add(time.Millisecond)
	p.RunTime.Add(time.Second)
	p.StartTime.Add(time.Second / 2)
	return p, nil
}

func (h *testDaemon) Complete(name string, j job.Job) (job.Job, error) {
	if !slices.Contains(h.Pools(), name) {
		return j, fmt.Errorf("%w: %q", ErrNoPool, name)
	}
	select {
	case <-h.stop:
		return j, bullpen.ErrClosed
	default:
	}
	if j.Name == "" {
		j.Name = "echo"
	}
	return j, nil
}

func (h *testDaemon) Run(ctx context.Context, name string, t bullpen.Task) (string, bullpen.Result, error) {
	switch name {
	case "kept":
		return t.ID, bullpen.Result{}, fmt.Errorf("%w: %q", ErrNotEphemeral, name)
	case "far":
		return t.ID, bullpen.Result{}, fmt.Errorf("%w: %q", ErrQueueOnly, name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.mu.Lock()
	if t.ID == "" {
		h.made++
		t.ID = fmt.Sprintf("made-%d", h.made)
	}
	if h.runs[t.ID] != nil {
		h.mu.Unlock()
		return t.ID, bullpen.Result{}, fmt.Errorf("%w: %q", ErrBusyID, t.ID)
	}
	h.runs[t.ID] = cancel
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.runs, t.ID)
		h.mu.Unlock()
	}()
	r, err := bullpen.Execute(ctx, h.executor, t)
	return t.ID, r, err
}

func (h *testDaemon) CancelRun(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	cancel := h.runs[id]
	if cancel != nil {
		cancel()
	}
	return cancel != nil
}

func (h *testDaemon) Waits(parent string) (func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if parent == "deep" {
		return nil, fmt.Errorf("%w: all helpers of pool %q are in use: raise helpers", ErrNested, "main")
	}
	h.waiting[parent]++
	_, here := h.hub.Where(parent)
	if here {
		h.workers++
	}
	err := h.pool.Resize(0, h.workers)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waiting[parent]--
		if here {
			h.workers--
		}
		h.pool.Resize(0, h.workers) //nolint:errcheck // to less than before
	}, err
}

func (h *testDaemon) waits(parent string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting[parent]
}

func (h *testDaemon) Follow(id string, after live.Position) *live.Feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.following {
		return nil
	}
	return h.hub.Follow(id, after)
}

func (h *testDaemon) Scale(_ string, least, most int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scaled = [2]int{least, most}
	return h.fails
}

func (h *testDaemon) ReloadPool(_ context.Context, name string) error {
	if !slices.Contains(h.Pools(), name) {
		return fmt.Errorf("%w: %q", ErrNoPool, name)
	}
	return h.failing()
}

func (h *testDaemon) Reload(context.Context) ([]string, error) {
	return []string{"pools.main"}, h.failing()
}

func (h *testDaemon) failing() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fails
}

func (h *testDaemon) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = err
}

// newAPI returns an API over a testDaemon.
func newAPI(t testing.TB, change ...func(*Config)) (*API, *testDaemon) {
	t.Helper()
	h := newTestDaemon(t)
	c := Config{Backend: h, MaxPayload: 64 << 10, MaxBody: 128 << 10}
	for _, f := range change {
		f(&c)
	}
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, h
}

// site is an API that is served.
type site struct {
	t      testing.TB
	api    *API
	daemon *testDaemon
	http   *httptest.Server
}

func newSite(t testing.TB, change ...func(*Config)) *site {
	t.Helper()
	a, h := newAPI(t, change...)
	s := &site{t, a, h, httptest.NewServer(a.Handler())}
	t.Cleanup(s.http.Close)
	return s
}

// reply is an answer that was read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// do asks; headers are pairs.
func (s *site) do(method, path, body string, headers ...string) reply {
	s.t.Helper()
	resp := s.open(s.t.Context(), method, path, strings.NewReader(body), headers...)
	defer resp.Body.Close() // it is read
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	got := reply{resp.StatusCode, resp.Header, string(b)}
	openAPI(s.t).conforms(s.t, method, path, got)
	return got
}

func (s *site) open(ctx context.Context, method, path string, body io.Reader, headers ...string) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, s.http.URL+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := s.http.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp
}

var errTest = errors.New("a fault of the test")
