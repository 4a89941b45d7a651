package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

const (
	// callers is how many enqueue at the same time, and window how many jobs of
	// each are under way: enough that some of each group wait.
	callers = 64
	window  = 16
	// places is how many jobs run at the same time where waits are measured, and
	// works for how long each runs.
	places = 8
	works  = 5 * time.Millisecond
	// every is how often a job of the small group is enqueued.
	every = 10 * time.Millisecond
)

// rates are the numbers of groups that are compared.
var rates = []int{0, 1, 16, 256}

// executor is the executor: a goroutine for each of so many jobs at a time.
type executor struct {
	size    int64
	running atomic.Int64
	handle  func(bullpen.Task)
}

func (c *executor) Submit(_ context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	c.running.Add(1)
	go func() { // ends with the handler; the queue waits for done
		c.handle(t)
		c.running.Add(-1)
		done(bullpen.Result{}, nil)
	}()
	return nil
}
func (c *executor) Capacity() int                  { return int(max(0, c.size-c.running.Load())) }
func (c *executor) Guarantees() bullpen.Guarantees { return bullpen.Guarantees{Exact: true} }
func (c *executor) Drain(context.Context) error    { return nil }
func (c *executor) Stop(context.Context) error     { return nil }
func (c *executor) Close() error                   { return nil }

// site is a queue that is worked.
type site struct {
	*queue.Queue

	folder string
	stop   context.CancelFunc
	worked chan error
}

func open(ctx context.Context, c *executor, w queue.WorkConfig) (*site, error) {
	folder, err := os.MkdirTemp("", "bullpen-groups-")
	if err != nil {
		return nil, err
	}
	q, err := queue.Open(ctx, queue.Config{Store: embedded.At(folder)})
	if err != nil {
		return nil, err
	}
	s := &site{Queue: q, folder: folder, worked: make(chan error, 1)}
	ctx, s.stop = context.WithCancel(ctx)
	go func() { s.worked <- q.Work(ctx, c, w) }() // ends with ctx; close waits
	return s, nil
}

func (s *site) close() error {
	s.stop()
	err := <-s.worked
	if e := s.Close(); err == nil {
		err = e
	}
	if e := os.RemoveAll(s.folder); err == nil {
		err = e
	}
	return err
}

// rateFigure is one rate.
type rateFigure struct {
	Groups    int     `json:"groups"`
	PerSecond float64 `json:"per_second"`
	// CPU is the processor time of the whole program for a job, in microseconds:
	// that stands also where other programs take the processors.
	CPU float64 `json:"cpu_us"`
}

// processorTime is what this program has used until now.
func processorTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}

// rate measures jobs from their enqueuing to their durable outcome.
func rate(ctx context.Context, groups int, span time.Duration) (rateFigure, error) {
	f := rateFigure{Groups: groups}
	room := make(chan struct{}, callers*window)
	c := &executor{size: callers, handle: func(bullpen.Task) { <-room }}
	s, err := open(ctx, c, queue.WorkConfig{Group: job.GroupLimits{Concurrency: 1000, Rate: 1e6, Burst: 1e6}})
	if err != nil {
		return f, err
	}
	ctx, stop := context.WithTimeout(ctx, span+span/4)
	defer stop()
	var failed atomic.Value
	var all sync.WaitGroup
	var turn atomic.Uint64
	for range callers {
		all.Go(func() {
			payload := make([]byte, 100)
			for ctx.Err() == nil {
				select {
				case room <- struct{}{}:
				case <-ctx.Done():
					return
				}
				j := job.Job{Name: "noop", Payload: payload}
				if groups > 0 {
					j.Group = "tenant-" + strconv.FormatUint(turn.Add(1)%uint64(groups), 10)
				}
				if _, err := s.Enqueue(ctx, j); err != nil && ctx.Err() == nil {
					failed.Store(err)
					return
				}
			}
		})
	}
	ended := func() float64 { return float64(s.Stats().Ended[bullpen.OK]) }
	<-time.After(span / 4)
	before, begin, used := ended(), time.Now(), processorTime()
	<-ctx.Done()
	n := ended() - before
	f.PerSecond = n / time.Since(begin).Seconds()
	f.CPU = (processorTime() - used) / n
	all.Wait()
	if err, is := failed.Load().(error); is {
		return f, err
	}
	return f, s.close()
}

// about is between half of d and half as much again: things that last equally long
// fall into step with each other, and what is measured then is that.
func about(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// waitFigure is how long jobs waited from the confirm of their enqueuing to their
// start.
type waitFigure struct {
	Backlog int           `json:"backlog"`
	Limit   int           `json:"limit"`
	Jobs    int           `json:"jobs"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	Most    time.Duration `json:"most_ns"`
}

// wait measures the waits of a group that has a job now and then, beside so many
// jobs of another group.
func wait(ctx context.Context, backlog, limit int, span time.Duration) (waitFigure, error) {
	f := waitFigure{Backlog: backlog, Limit: limit}
	var mu sync.Mutex
	began := map[string]time.Time{}
	c := &executor{size: places, handle: func(t bullpen.Task) {
		if t.Name == "small" {
			mu.Lock()
			began[t.ID] = time.Now()
			mu.Unlock()
		}
		<-time.After(about(works))
	}}
	s, err := open(ctx, c, queue.WorkConfig{Group: job.GroupLimits{Concurrency: limit}})
	if err != nil {
		return f, err
	}
	jobs := make([]job.Job, backlog)
	for i := range jobs {
		jobs[i] = job.Job{Name: "big", Group: "big", Payload: make([]byte, 100)}
	}
	if _, err := s.EnqueueAll(ctx, jobs); err != nil {
		return f, err
	}
	<-time.After(span / 4)
	sent := map[string]time.Time{}
	for begin := time.Now(); time.Since(begin) < span; <-time.After(about(every)) {
		at := time.Now()
		ref, err := s.Enqueue(ctx, job.Job{Name: "small", Group: "small"})
		if err != nil {
			return f, err
		}
		sent[ref.ID] = at
	}
	<-time.After(time.Second)
	var waits []time.Duration
	mu.Lock()
	for id, at := range sent {
		start, there := began[id]
		if !there {
			start = time.Now()
		}
		waits = append(waits, start.Sub(at))
	}
	mu.Unlock()
	slices.Sort(waits)
	f.Jobs = len(waits)
	if f.Jobs == 0 {
		return f, fmt.Errorf("nothing was measured in %v", span)
	}
	f.P50, f.P99, f.Most = waits[f.Jobs/2], waits[f.Jobs*99/100], waits[f.Jobs-1]
	return f, s.close()
}
