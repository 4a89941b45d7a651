package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/natstest"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
)

// clusterLoad is what two nodes do with a cluster.
type clusterLoad struct {
	t      *testing.T
	nodes  []*queue.Queue
	ran    atomic.Int64
	failed atomic.Int64 // tries to enqueue that were not confirmed

	mu   sync.Mutex
	sent map[string][]byte // the payload of each confirmed job; guarded by mu
}

// Three servers, two nodes under load: one server at a time is killed, halted or cut
// off, at random. In the end each confirmed job has exactly one outcome.
func TestChaosCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three servers: run it without -short")
	}
	t.Parallel()
	k := natstest.Start(t, natstest.Config{Servers: 3})
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rounds(2, 6))*patience)
	defer cancel()
	l := &clusterLoad{t: t, sent: make(map[string][]byte)}
	// A client stays with a server that is cut off. So that load goes on, there is
	// no server which both nodes can be connected with.
	urls := k.URLs()
	l.node(ctx, urls[0]+","+urls[1], 0)
	l.node(ctx, urls[2], 1)
	stop := l.start()
	l.more(50)
	faults := 0
	first := rand.IntN(3)
	for i := range rounds(2, 21) {
		if err := l.strike(ctx, k, rand.IntN(3), []fault{killed, halted, cutOff}[(first+i)%3]); err != nil {
			t.Fatal(err)
		}
		faults++
	}
	stop()
	settling, done := context.WithTimeout(t.Context(), patience)
	defer done()
	l.settle(settling)
	t.Logf("%d faults; %d jobs confirmed after %d tries that were not, %d runs", faults, len(l.sent), l.failed.Load(), l.ran.Load())
}

// node adds a node that enqueues and works.
func (l *clusterLoad) node(ctx context.Context, urls string, i int) {
	l.t.Helper()
	q, err := queue.Open(ctx, queue.Config{
		Store: queue.Server{URL: urls, Replicas: 3}, Node: fmt.Sprint("node", i), Lease: 2 * time.Second, Retry: job.Retry{Nodes: 1000},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := q.Close(); err != nil {
			l.t.Error(err)
		}
	})
	e, err := pool.New(pool.Config{Max: 4, Handlers: map[string]bullpen.Handler{
		"note": func(_ context.Context, task bullpen.Task) ([]byte, error) {
			l.ran.Add(1)
			return task.Payload, intact(task.Payload)
		},
	}})
	closing(l.t, e, err)
	working, stop := context.WithCancel(context.Background())
	var worker sync.WaitGroup
	worker.Go(func() { // ends with working; the end of the test waits
		for working.Err() == nil {
			// It may not begin while the servers elect a leader: then it begins again.
			if err := q.Work(working, e, queue.WorkConfig{Queue: workQueue, Concurrency: 4}); err != nil && !errors.Is(err, job.ErrStore) {
				l.t.Errorf("the end of Work: %v", err)
				return
			}
		}
	})
	l.t.Cleanup(func() {
		stop()
		worker.Wait()
	})
	l.nodes = append(l.nodes, q)
}

// start lets four callers of each node enqueue until stop is called.
func (l *clusterLoad) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for i, q := range l.nodes {
		for j := range 4 {
			random := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			callers.Go(func() { // ends with ctx; stop waits
				for n := 0; ctx.Err() == nil; n++ {
					l.enqueue(ctx, q, fmt.Sprintf("%d-%d-%d", i, j, n), payload(random, 1000))
					pause(rand.N(100 * time.Millisecond))
				}
			})
		}
	}
	stop = sync.OnceFunc(func() {
		cancel()
		callers.Wait()
	})
	l.t.Cleanup(stop)
	return stop
}

// enqueue tries with the same key until the job is confirmed.
func (l *clusterLoad) enqueue(ctx context.Context, q *queue.Queue, key string, body []byte) {
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		ref, err := q.Enqueue(try, job.Job{Queue: workQueue, Name: "note", Key: key, Payload: body})
		cancel()
		if err != nil {
			l.failed.Add(1)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.sent[ref.ID] = body
		return
	}
}

// more waits until so many more jobs are confirmed, and as many have run.
func (l *clusterLoad) more(jobs int) {
	l.t.Helper()
	size := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.sent)
	}
	confirmed, ran := size()+jobs, l.ran.Load()+int64(jobs)
	until(l.t, fmt.Sprintf("%d more jobs are confirmed and run", jobs), func() bool { return size() >= confirmed && l.ran.Load() >= ran })
}

// fault is what happens to a server.
type fault string

const (
	killed fault = "killed"
	halted fault = "halted"
	cutOff fault = "cut off"
)

// strike kills a server, halts it or cuts it off, and repairs it while the load goes on.
func (l *clusterLoad) strike(ctx context.Context, k *natstest.Servers, i int, fault fault) error {
	l.t.Helper()
	began := time.Now()
	switch fault {
	case killed:
		k.Kill(i)
	case halted:
		k.Pause(i)
	case cutOff:
		k.Cut(i)
	}
	l.more(50)
	without := time.Since(began)
	switch fault {
	case killed:
		k.Restart(i)
	case halted:
		k.Resume(i)
	case cutOff:
		k.Heal(i)
	}
	k.Wait()
	// Were the next one struck before this one has caught up, two would be gone.
	if err := whole(ctx, k); err != nil {
		return err
	}
	l.more(20)
	l.t.Logf("server %d %s: 50 jobs within %v", i, fault, without.Round(time.Millisecond))
	return nil
}

// whole waits until all streams and consumers have a leader and three copies that
// are up to date.
func whole(ctx context.Context, k *natstest.Servers) error {
	conn, err := nats.Connect(k.URL(), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	for !current(ctx, js) {
		if ctx.Err() != nil {
			return fmt.Errorf("the copies do not catch up: %w", ctx.Err())
		}
		pause(50 * time.Millisecond)
	}
	return nil
}

func current(ctx context.Context, js jetstream.JetStream) bool {
	try, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	good := func(c *jetstream.ClusterInfo) bool {
		return c != nil && c.Leader != "" && len(c.Replicas) == 2 && c.Replicas[0].Current && c.Replicas[1].Current
	}
	streams := 0
	list := js.ListStreams(try)
	for s := range list.Info() { // to its end, or its goroutine stays
		if good(s.Cluster) {
			streams++
		}
	}
	if list.Err() != nil || streams != 4 {
		return false
	}
	jobs, err := js.Stream(try, "BP_main_JOBS")
	if err != nil {
		return false
	}
	consumers, fine := jobs.ListConsumers(try), true
	for c := range consumers.Info() { // to its end, or its goroutine stays
		fine = fine && good(c.Cluster)
	}
	return fine && consumers.Err() == nil
}

// settle waits for all jobs, and looks for each outcome on the node that is not
// the one which may have enqueued it.
func (l *clusterLoad) settle(ctx context.Context) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	began, bad := time.Now(), 0
	for id, body := range l.sent {
		for _, q := range l.nodes {
			r, err := l.wait(ctx, q, id)
			if err == nil && !bytes.Equal(r.Payload, body) {
				err = errors.New("it has the result of another")
			}
			if err != nil {
				if bad++; bad <= 5 {
					l.t.Errorf("job %s: %v; %s", id, err, l.where(q, id))
				}
			}
		}
	}
	l.t.Logf("all outcomes were there after %v", time.Since(began).Round(time.Millisecond))
	l.once(ctx)
}

// wait asks again as long as the servers elect a leader. A question that was lost
// on the way must not hold up the call.
func (l *clusterLoad) wait(ctx context.Context, q *queue.Queue, id string) (bullpen.Result, error) {
	l.t.Helper()
	for {
		began := time.Now()
		r, err := q.Wait(ctx, id)
		if errors.Is(err, job.ErrStore) && ctx.Err() == nil && time.Since(began) < 30*time.Second {
			continue
		}
		return r, err
	}
}

// where says what the queue knows of a job that does not end.
func (l *clusterLoad) where(q *queue.Queue, id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info, err := q.Get(ctx, id)
	depth, err2 := q.Depth(ctx, workQueue)
	return fmt.Sprintf("Get says %+v, %v; Depth says %+v, %v; the node: %+v", info, err, depth, err2, q.Stats())
}

// once finds one outcome of each job in the list. l.mu is held.
func (l *clusterLoad) once(ctx context.Context) {
	l.t.Helper()
	seen := make(map[string]int)
	for f := (job.Filter{States: []job.State{job.Done, job.Dead, job.Canceled}, Limit: 5000}); ; {
		page, err := l.nodes[0].List(ctx, f)
		if err != nil {
			l.t.Fatal(err)
		}
		for i := range page.Jobs {
			seen[page.Jobs[i].ID]++
		}
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	for id := range l.sent {
		if seen[id] != 1 {
			l.t.Errorf("job %s has %d outcomes", id, seen[id])
		}
	}
	until(l.t, "all jobs have left the queue", func() bool {
		s, err := l.nodes[0].Status(ctx)
		return err == nil && s.Jobs.Messages == 0
	})
}
