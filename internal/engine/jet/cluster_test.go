package jet

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/enginetest"
	"github.com/bullpen-run/bullpen/internal/natstest"
)

// cluster is a store on several servers, each of which has all of it.
type cluster struct {
	*natstest.Servers
	replicas int
}

func startCluster(t *testing.T) cluster {
	t.Helper()
	return cluster{natstest.Start(t, natstest.Config{Servers: 3}), 3}
}

func (k cluster) connect() (*nats.Conn, error) {
	return nats.Connect(k.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
}

func (k cluster) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	conn, err := k.connect()
	if err != nil {
		return nil, err
	}
	e, err := Open(ctx, Config{Conn: conn, Replicas: k.replicas, Owned: true, Options: o})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return e, nil
}

// tidy is a store whose streams are removed at the end of a test: three servers
// on one machine have enough to do with those of one namespace.
type tidy struct {
	cluster

	mu         sync.Mutex
	namespaces map[string]bool // guarded by mu: all that were opened
}

func newTidy(t *testing.T, k cluster) *tidy {
	t.Helper()
	s := &tidy{cluster: k, namespaces: map[string]bool{}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.remove(ctx); err != nil {
			t.Errorf("removing the streams: %v", err)
		}
	})
	return s
}

func (s *tidy) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	s.mu.Lock()
	s.namespaces[o.Namespace] = true
	s.mu.Unlock()
	return s.cluster.Open(ctx, o)
}

// remove removes all streams.
func (s *tidy) remove(ctx context.Context) error {
	conn, err := s.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for namespace := range s.namespaces {
		for _, p := range addresses(namespace) {
			if err := js.DeleteStream(ctx, p.name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
				return err
			}
		}
	}
	return nil
}

func TestContractServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a server: run it without -short")
	}
	k := cluster{natstest.Start(t, natstest.Config{}), 1}
	enginetest.Run(t, enginetest.Factory{New: func(t *testing.T) engine.Store { t.Helper(); return newTidy(t, k) }, Parallel: true})
}

func TestContractCluster(t *testing.T) {
	if os.Getenv("BULLPEN_LONG") == "" {
		t.Skip("takes two minutes: set BULLPEN_LONG=1")
	}
	k := startCluster(t)
	enginetest.Run(t, enginetest.Factory{
		New:  func(t *testing.T) engine.Store { t.Helper(); return newTidy(t, k) },
		Late: 2 * time.Second,
	})
}

// lose kills one server and starts it again.
func (k cluster) lose(t *testing.T, i int) {
	t.Helper()
	k.Kill(i)
	k.Restart(i)
	k.Wait()
}

// hand takes jobs, counts what it asked for, and acknowledges each.
type hand struct {
	taker engine.Taker

	mu                             sync.Mutex
	asked, came, returned, waiting int
	seen                           map[string]int
	stopping                       bool
	all                            chan struct{} // closed when as many different jobs have come as are waited for
}

func (h *hand) ask(n int, wait bool) {
	h.mu.Lock()
	h.asked += n
	h.mu.Unlock()
	h.taker.Request(n, wait)
}

func (h *hand) deliver(d engine.Delivery) {
	d.Ack()
	h.mu.Lock()
	h.came++
	h.seen[d.Subject]++
	if h.seen[d.Subject] == 1 && len(h.seen) == h.waiting {
		close(h.all)
	}
	h.mu.Unlock()
	h.ask(1, true)
}

func (h *hand) back(n int) {
	h.mu.Lock()
	h.returned += n
	stopping := h.stopping
	h.mu.Unlock()
	if !stopping {
		h.ask(n, true)
	}
}

// putUntilStored puts a job again until it is known that it is stored.
func putUntilStored(t *testing.T, e engine.Engine, subject string) {
	t.Helper()
	answer := make(chan error, 1)
	for tries := 0; ; tries++ {
		e.Put(engine.Put{Stream: engine.Jobs, Subject: subject, Data: []byte(subject), New: true}, func(_ uint64, err error) { answer <- err })
		err := <-answer
		if err == nil || tries > 0 && errors.Is(err, engine.ErrConflict) {
			return
		}
		if errors.Is(err, engine.ErrFull) || errors.Is(err, engine.ErrFailed) || tries > 200 {
			t.Errorf("Put %s = %v", subject, err)
			return
		}
		select {
		case <-time.After(50 * time.Millisecond): // as any caller of a store that is away
		case <-t.Context().Done():
			return
		}
	}
}

// TestNodesLost loses one server after the other under load: every job that was
// stored is handed out, and the account of requests is kept.
func TestNodesLost(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a quarter of a minute: run it without -short")
	}
	k := startCluster(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	e, err := k.Open(ctx, engine.Options{Namespace: "lost", Lease: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	const jobs, putters = 3000, 16
	h := &hand{seen: map[string]int{}, waiting: jobs, all: make(chan struct{})}
	if h.taker, err = e.Take(mail, h.deliver, h.back); err != nil {
		t.Fatal(err)
	}
	h.ask(32, true)
	var last atomic.Uint64
	var all sync.WaitGroup
	step := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	for range putters {
		all.Go(func() {
			for n := last.Add(1); n <= jobs; n = last.Add(1) {
				putUntilStored(t, e, engine.JobSubject(mail, jobID(n)))
				if i := n/(jobs/3) - 1; n%(jobs/3) == 0 && i < 2 {
					close(step[i])
				}
			}
		})
	}
	for i := range step {
		<-step[i]
		k.lose(t, i)
	}
	all.Wait()
	select {
	case <-h.all:
	case <-ctx.Done():
		t.Errorf("not all jobs came")
	}
	h.mu.Lock()
	h.stopping = true
	h.mu.Unlock()
	h.taker.Stop()
	h.mu.Lock()
	if h.asked != h.came+h.returned {
		t.Errorf("%d were asked for, %d came and %d were returned, which is not the same", h.asked, h.came, h.returned)
	}
	if len(h.seen) != jobs {
		t.Errorf("%d different jobs came, want %d", len(h.seen), jobs)
	}
	h.mu.Unlock()
	if err := e.Close(ctx); err != nil {
		t.Errorf("Close = %v", err)
	}
}
