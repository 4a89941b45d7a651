package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/pool"
)

// wire is a network on which connections break: a proxy that cuts them after a
// random number of bytes, and for some moments takes none at all.
type wire struct {
	listener net.Listener
	to       string
	all      sync.WaitGroup

	mu    sync.Mutex
	rng   *rand.Rand            // guarded by mu
	open  map[net.Conn]struct{} // guarded by mu
	ended bool                  // guarded by mu
	sound bool                  // nothing is cut any more; guarded by mu
}

// newWire returns a network before a server; it ends with the test.
func newWire(t *testing.T, to string, seed uint64) *wire {
	t.Helper()
	at, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, to: at.Host, rng: rand.New(rand.NewPCG(seed, 1)), open: map[net.Conn]struct{}{}}
	w.all.Go(w.accept) // ends with the listener; close waits for it
	t.Cleanup(w.close)
	return w
}

func (w *wire) url() string { return "http://" + w.listener.Addr().String() }

func (w *wire) accept() {
	for {
		c, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.mu.Lock()
		up, down, refused := w.budget(), w.budget(), !w.sound && w.rng.IntN(10) == 0
		w.mu.Unlock()
		if refused {
			c.Close()
			continue
		}
		w.all.Go(func() { w.carry(c, up, down) }) // ends with the connection
	}
}

// budget is after how many bytes a connection breaks. w.mu is held.
func (w *wire) budget() int64 {
	if w.sound || w.rng.IntN(4) == 0 {
		return 1 << 40
	}
	return int64(w.rng.IntN(4000))
}

func (w *wire) carry(near net.Conn, up, down int64) {
	far, err := new(net.Dialer).DialContext(context.Background(), "tcp", w.to)
	if err != nil {
		near.Close()
		return
	}
	if !w.keep(near, far) {
		return
	}
	var both sync.WaitGroup
	for _, way := range []struct {
		to, from net.Conn
		bytes    int64
	}{{far, near, up}, {near, far, down}} {
		both.Go(func() { // ends when either side does, or at the cut; carry waits for it
			_, _ = io.CopyN(way.to, way.from, way.bytes)
			near.Close()
			far.Close()
		})
	}
	both.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.open, near)
	delete(w.open, far)
}

// keep notes connections, for close; false says that it is too late.
func (w *wire) keep(all ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range all {
		if w.ended {
			c.Close()
		} else {
			w.open[c] = struct{}{}
		}
	}
	return !w.ended
}

// mend lets new connections live, and cuts the old ones.
func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sound = true
	for c := range w.open {
		c.Close()
	}
}

func (w *wire) close() {
	w.mend()
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.listener.Close()
	w.all.Wait()
}

// runCounts counts how often each task ran.
type runCounts struct {
	mu   sync.Mutex
	runs map[string]int // guarded by mu
}

func (y *runCounts) handler(_ context.Context, t bullpen.Task) ([]byte, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.runs[string(t.Payload[:8])]++
	return t.Payload, nil
}

// TestBrokenConnections gives tasks over a network that breaks at random. What must
// hold: each accepted task has one outcome, a task with a result ran once and has
// its own, one that never started did not run, and none ran twice. A durable task
// is not lost, for it is asked for again.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprintf("durable=%v", durable), func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			breakConnections(t, durable, seed)
		})
	}
}

// given is what became of one task.
type given struct {
	times  int
	result bullpen.Result
	err    error
}

// givings are the tasks of a test, by name.
type givings struct {
	mu  sync.Mutex
	all map[string]*given // guarded by mu
}

// give hands over a task, which is canceled at random.
func (s *givings) give(e *client.Executor, rng *rand.Rand, name string) {
	payload := append([]byte(name), make([]byte, rng.IntN(3000))...)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	if rng.IntN(10) == 0 {
		time.AfterFunc(time.Duration(rng.IntN(3000))*time.Microsecond, cancel)
	}
	mine := &given{}
	s.mu.Lock()
	s.all[name] = mine
	s.mu.Unlock()
	tell := func(r bullpen.Result, err error) {
		defer cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		mine.times++
		mine.result, mine.err = r, err
	}
	if err := e.Submit(ctx, bullpen.Task{ID: name, Name: "count", Payload: payload}, tell); err != nil {
		tell(bullpen.Result{}, err)
	}
}

func breakConnections(t *testing.T, durable bool, seed uint64) {
	t.Helper()
	const givers, each = 8, 40
	ran := &runCounts{runs: map[string]int{}}
	workers, err := pool.New(pool.Config{Max: 4, Handlers: map[string]bullpen.Handler{"count": ran.handler}})
	if err != nil {
		t.Fatal(err)
	}
	_, at := serve(t, workers, nil)
	network := newWire(t, at, seed)
	c := connect(t, client.Config{URL: network.url(), Retries: 40, Timeout: 5 * time.Second})
	e, err := c.Executor("p", client.ExecutorConfig{Durable: durable, Inflight: 6, Queue: 20, CloseGrace: time.Minute}) // a task that is taken back is not lost to the grace
	if err != nil {
		t.Fatal(err)
	}
	tasks := &givings{all: map[string]*given{}}
	var all sync.WaitGroup
	for g := range givers {
		all.Go(func() { // ends after its tasks; the test waits for it
			rng := rand.New(rand.NewPCG(seed, uint64(g)+2))
			for i := range each {
				tasks.give(e, rng, fmt.Sprintf("%03d-%04d", g, i))
			}
		})
	}
	all.Wait()
	timer := time.AfterFunc(20*time.Second, network.mend) // long after the end of most runs
	defer timer.Stop()
	if err := e.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	tasks.mu.Lock()
	defer tasks.mu.Unlock()
	ran.mu.Lock()
	defer ran.mu.Unlock()
	counts := map[string]int{}
	for name, mine := range tasks.all {
		mine.check(t, name, ran.runs[name], durable)
		outcome, started := bullpen.OutcomeOf(mine.err)
		counts[fmt.Sprintf("started %v, %v", started, outcome)]++
	}
	t.Log(counts)
}

// check holds what is said of a task against how often it ran.
func (g *given) check(t *testing.T, name string, n int, durable bool) {
	t.Helper()
	outcome, started := bullpen.OutcomeOf(g.err)
	switch {
	case g.times != 1:
		t.Errorf("task %s has %d outcomes", name, g.times)
	case n > 1:
		t.Errorf("task %s ran %d times", name, n)
	case g.err == nil && (n != 1 || string(g.result.Payload[:8]) != name):
		t.Errorf("task %s ran %d times and gave %q", name, n, g.result.Payload)
	case !started && n != 0:
		t.Errorf("task %s ran and is said never to have started: %v", name, g.err)
	case durable && outcome == bullpen.Lost:
		t.Errorf("durable task %s is lost: %v", name, g.err)
	case !started && !errors.Is(g.err, context.Canceled):
		t.Errorf("task %s never started though the daemon was there: %v", name, g.err)
	}
}
