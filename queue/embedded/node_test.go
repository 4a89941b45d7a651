//go:build linux

package embedded_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/worker"
)

// What a node and its workers find in their environment.
const (
	nodeVar = "BULLPEN_TEST_NODE" // a nodeConfig
	ranVar  = "BULLPEN_TEST_RAN"  // the file that handlers append to
	lifeVar = "BULLPEN_TEST_LIFE" // which life of the node it is
	markVar = "BULLPEN_TEST_MARK" // the workers of one test have it
)

// nodeConfig says what a node does.
type nodeConfig struct {
	Dir   string
	Lease time.Duration
	// Lazy is the control: a confirm waits for no sync.
	Lazy bool
	// Ran is the file to which handlers append, Life what they write beside.
	Ran, Life string
	// Workers is how many worker processes there are, with Mark in their
	// environment; 0 runs the jobs in goroutines.
	Workers int
	Mark    string
	// Concurrency is that of Work; 0 works on nothing.
	Concurrency int
	// Enqueuers enqueue without a pause, or with one of Pause at most. Of 100
	// jobs Kept go to a queue that nobody works on, and Waited are waited for.
	Enqueuers, Kept, Waited int
	Pause                   time.Duration
	// Payload is the size of the largest payload.
	Payload int
}

// role makes this process what its environment says; false is a test.
func role() bool {
	if worker.Serving() {
		handlers := noting(os.Getenv(ranVar), os.Getenv(lifeVar))
		maps.Copy(handlers, poisons())
		worker.Main(worker.Config{Handlers: handlers})
		return true
	}
	runs, err := roleOf()
	if !runs {
		return false
	}
	if err != nil {
		fmt.Printf("fault %v\n", err)
		os.Exit(1)
	}
	return true
}

// roleOf runs this process as what its environment says, if that is no worker.
func roleOf() (runs bool, err error) {
	if text := os.Getenv(clockVar); text != "" {
		var c clockConfig
		if err = json.Unmarshal([]byte(text), &c); err == nil {
			err = c.run()
		}
		return true, err
	}
	if of := os.Getenv(batchVar); of != "" {
		var batches int
		var dir string
		if _, err = fmt.Sscan(of, &batches, &dir); err == nil {
			err = runBatches(dir, batches)
		}
		return true, err
	}
	text := os.Getenv(nodeVar)
	if text == "" {
		return false, nil
	}
	var c nodeConfig
	if err = json.Unmarshal([]byte(text), &c); err == nil {
		err = c.run()
	}
	return true, err
}

// noting gives the handlers that append who ran, when path and life are given, and
// give back what they got.
func noting(path, life string) map[string]bullpen.Handler {
	note := func(_ context.Context, t bullpen.Task) ([]byte, error) {
		if err := intact(t.Payload); err != nil {
			return nil, err
		}
		if path == "" || life == "" {
			return t.Payload, nil
		}
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		a := queue.AttemptOf(t)
		_, err = fmt.Fprintf(f, "%s %d %t %s\n", t.ID, a.Attempt, a.Redelivered, life)
		return t.Payload, err
	}
	return map[string]bullpen.Handler{"note": note}
}

// executor runs the jobs of a node.
func (c *nodeConfig) executor() (bullpen.Executor, error) {
	if c.Workers == 0 {
		return pool.New(pool.Config{Max: 8, Handlers: noting(c.Ran, c.Life)})
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return process.New(process.Config{
		Command: []string{exe}, Min: c.Workers, Max: c.Workers, Nice: process.HostNice,
		Env: []string{ranVar + "=" + c.Ran, lifeVar + "=" + c.Life, markVar + "=" + c.Mark},
	})
}

// report writes lines that the test reads.
type report struct {
	mu  sync.Mutex
	out io.Writer // guarded by mu
}

func (r *report) line(format string, a ...any) {
	var b bytes.Buffer
	fmt.Fprintf(&b, format+"\n", a...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.out.Write(b.Bytes()); err != nil {
		os.Exit(1) // the test is gone
	}
}

// run is a node's life. It ends by a signal, or when the test closes its
// standard input.
func (c *nodeConfig) run() error {
	ctx := context.Background()
	q, err := queue.Open(ctx, queue.Config{Store: storeOf(c), Lease: c.Lease, Retry: job.Retry{Nodes: 1000}})
	if err != nil {
		return err
	}
	r := &report{out: os.Stdout}
	if c.Concurrency > 0 {
		e, err := c.executor()
		if err != nil {
			return err
		}
		go func() { // ends with the process
			r.line("fault the end of Work: %v", q.Work(ctx, e, queue.WorkConfig{
				Queue: workQueue, Concurrency: c.Concurrency, Group: job.GroupLimits{Concurrency: 3},
			}))
		}()
		go c.watch(q, r) // ends with the process
	}
	r.line("up")
	for i := range c.Enqueuers {
		go c.enqueue(ctx, q, r, rand.New(rand.NewPCG(uint64(i), uint64(os.Getpid())))) // ends with the process
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// watch tells how many jobs the node has in hand, when that rises.
func (c *nodeConfig) watch(q *queue.Queue, r *report) {
	most := 0
	for range time.Tick(2 * time.Millisecond) {
		if n := q.Stats().InHand; n > most {
			most = n
			r.line("in-hand %d", n)
		}
	}
}

// enqueue is one enqueuer: it tells of each job when it is confirmed, and of
// those that it waits for when their outcome is.
func (c *nodeConfig) enqueue(ctx context.Context, q *queue.Queue, r *report, random *rand.Rand) {
	for {
		j := job.Job{Queue: workQueue, Name: "note", Payload: payload(random, c.Payload)}
		if random.IntN(2) == 0 {
			j.Group = fmt.Sprint("group ", random.IntN(6))
		}
		waited := random.IntN(100) < c.Waited
		if random.IntN(100) < c.Kept {
			j.Queue, waited = keptQueue, false
		}
		if err := c.one(ctx, q, r, j, waited, random.IntN(2) == 0); err != nil {
			r.line("fault %v", err)
			return
		}
		if c.Pause > 0 {
			pause(rand.N(c.Pause))
		}
	}
}

func (c *nodeConfig) one(ctx context.Context, q *queue.Queue, r *report, j job.Job, waited, run bool) error {
	if waited && run {
		ref, result, err := q.Run(ctx, j)
		if err != nil {
			return err
		}
		r.line("ended %s %t", ref.ID, bytes.Equal(result.Payload, j.Payload))
		return nil
	}
	ref, err := q.Enqueue(ctx, j)
	if err != nil {
		return err
	}
	r.line("confirmed %s %s", ref.ID, j.Queue)
	if !waited {
		return nil
	}
	result, err := q.Wait(ctx, ref.ID)
	if err != nil {
		return err
	}
	r.line("ended %s %t", ref.ID, bytes.Equal(result.Payload, j.Payload))
	return nil
}

// lifeName is how a life is written.
func lifeName(n int) string { return strconv.Itoa(n) }
