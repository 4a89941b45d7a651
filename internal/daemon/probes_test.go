package daemon

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/natstest"
)

// probing asks for the probes of a daemon without a pause, each on a connection of its
// own.
type probing struct {
	mu      sync.Mutex
	slowest time.Duration // guarded by mu
	asked   int           // guarded by mu
	slow    int           // guarded by mu: took more than a second
	live    answer        // guarded by mu: the last ones
	ready   answer        // guarded by mu
	stop    func()
}

// probe begins to ask at a URL, until stop is called. livez always says yes, and a probe
// takes less than a second, unless the whole machine stands still.
func probe(t *testing.T, url string) *probing {
	t.Helper()
	p := &probing{}
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{t: t, url: url, fresh: true}
	var both sync.WaitGroup
	for path, last := range map[string]*answer{livePath: &p.live, readyPath: &p.ready} {
		both.Go(func() { // ends with ctx; stop waits
			for ctx.Err() == nil {
				began := time.Now()
				a, err := n.send(ctx, http.MethodGet, path, "")
				took := time.Since(began)
				if ctx.Err() != nil {
					return
				}
				p.mu.Lock()
				p.asked++
				p.slowest = max(p.slowest, took)
				if took > time.Second {
					p.slow++
				}
				*last = a
				p.mu.Unlock()
				if err != nil || took > 10*time.Second || path == livePath && a.status != http.StatusOK {
					t.Errorf("%s after %v: %d %s, %v", path, took, a.status, a.body, err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
	p.stop = sync.OnceFunc(func() {
		cancel()
		both.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		t.Logf("%d probes, the slowest took %v", p.asked, p.slowest)
		if p.slow > p.asked/20 {
			t.Errorf("%d of %d probes took more than a second", p.slow, p.asked)
		}
	})
	t.Cleanup(p.stop)
	return p
}

// says waits until /readyz says something.
func (p *probing) says(t *testing.T, status int, words string) {
	t.Helper()
	eventually(t, fmt.Sprintf("readyz says %d %s", status, words), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.ready.status == status && strings.Contains(p.ready.body, words)
	})
}

// submitters hand jobs in without a pause, however it goes, until stop is called.
func submitters(n *node, pool string, size int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	body := strings.Repeat("x", size)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { // ends with ctx; stop waits
			for ctx.Err() == nil {
				try, done := context.WithTimeout(ctx, 5*time.Second)
				_, _ = n.send(try, http.MethodPost, "/v1/pools/"+pool+"/jobs", body) // refused while the servers halt
				done()
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	n.t.Cleanup(stop)
	return stop
}

// TestProbesWhileServersHalt halts one server of three, and then another, while jobs
// come: the probes answer at once, and say which queues cannot be worked.
func TestProbesWhileServersHalt(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute: run it without -short")
	}
	t.Parallel()
	k := natstest.Start(t, natstest.Config{Servers: 3, Lazy: true})
	n := openText(t, fmt.Sprintf("http: {listen: '127.0.0.1:0'}\ngrace: 2s\nqueue: {url: %q, replicas: 3, lease: 5s}\npools:\n%s%s",
		k.URL(), mine(t, "one", "workers: {min: 1, max: 2}"), mine(t, "two", "workers: {min: 1, max: 2}")))
	n.begin()
	n.awaitReady()
	p := probe(t, n.url)
	defer p.stop()
	p.says(t, http.StatusOK, "ok   queue: it accepts jobs")
	stop := submitters(n, "one", 400_000)
	defer stop()
	for i := range 2 {
		k.Pause(i)
		<-time.After(7 * time.Second) // what is sent to a server that was halted fills buffers meanwhile
	}
	p.says(t, http.StatusServiceUnavailable, "FAIL pool one: its jobs cannot run: the store has not answered for ")
	p.says(t, http.StatusServiceUnavailable, "FAIL pool two: its jobs cannot run: the store has not answered for ")
	k.Resume(0)
	k.Resume(1)
	p.says(t, http.StatusOK, "ok   queue: it accepts jobs")
}

// TestProbesWhileQueueOpens has one server of three when the daemon starts: the probes
// answer at the address of the API, which has no other; a request learns after a while
// what is missing, and another one is served when it is there.
func TestProbesWhileQueueOpens(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute: run it without -short")
	}
	t.Parallel()
	k := natstest.Start(t, natstest.Config{Servers: 3, Lazy: true})
	k.Kill(1)
	k.Pause(2)
	address := freeAddress(t)
	n := newNode(t)
	n.text = fmt.Sprintf("http: {listen: %q}\nqueue: {url: %q, replicas: 3}\npools:\n%s", address, k.URL(), mine(t, "one", "workers: {min: 1}"))
	opened := make(chan struct{})
	go func() { // ends when the queue is open, or with the test; waited for below
		defer close(opened)
		n.open()
	}()
	asker := &node{t: t, url: "http://" + address, fresh: true}
	eventually(t, "the probes answer", func() bool {
		_, err := asker.send(t.Context(), http.MethodGet, livePath, "")
		return err == nil
	})
	p := probe(t, asker.url)
	defer p.stop()
	p.says(t, http.StatusServiceUnavailable, "FAIL queue: the daemon waits for the queue: more than half of the servers at nats://")
	if a := asker.want(http.StatusServiceUnavailable, http.MethodGet, "/v1/status", ""); !strings.Contains(a.body, "waits for the queue") {
		t.Errorf("the API says %s", a.body)
	}
	patient := make(chan answer, 1)
	go func() { // ends with its answer; waited for below
		for {
			a, err := asker.send(t.Context(), http.MethodGet, "/v1/status", "")
			if err != nil || a.status != http.StatusServiceUnavailable {
				patient <- a
				return
			}
		}
	}()
	k.Resume(2)
	<-opened
	if n.Daemon == nil {
		return // it has said why
	}
	n.begin()
	if a := <-patient; a.status != http.StatusOK {
		t.Errorf("the API says %d %s", a.status, a.body)
	}
	n.awaitReady()
	p.says(t, http.StatusOK, "")
}
