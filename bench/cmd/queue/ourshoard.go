package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	root "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// ourHoard is Bullpen's queue with jobs that wait.
type ourHoard struct {
	queue  *queue.Queue
	worked atomic.Int64
}

func openOurHoard(ctx context.Context, s site) (hoard, error) {
	q, err := queue.Open(ctx, queue.Config{Store: embedded.At(s.Folder)})
	if err != nil {
		return nil, err
	}
	return &ourHoard{queue: q}, nil
}

func (h *ourHoard) put(ctx context.Context, n int) error {
	jobs := make([]job.Job, 0, bulk)
	for i := range n {
		jobs = append(jobs, job.Job{Queue: queueName, Name: "noop", Payload: payload(i)})
		if len(jobs) < bulk && i < n-1 {
			continue
		}
		if _, err := h.queue.EnqueueAll(ctx, jobs); err != nil {
			return err
		}
		jobs = jobs[:0]
	}
	return nil
}

// first works until the handler of the first job has started.
func (h *ourHoard) first(ctx context.Context) (at time.Time, err error) {
	first := make(chan struct{})
	var once sync.Once
	p, err := pool.New(pool.Config{Max: 1, Handlers: map[string]root.Handler{
		"noop": func(context.Context, root.Task) ([]byte, error) {
			h.worked.Add(1)
			once.Do(func() { at = time.Now(); close(first) })
			return nil, nil
		}}})
	if err != nil {
		return time.Time{}, err
	}
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	// Started here, ends when stop is called; waited for below.
	go func() {
		worked <- h.queue.Work(working, p, queue.WorkConfig{Queue: queueName, Concurrency: 1})
	}()
	select {
	case <-first:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	stop()
	return at, errors.Join(err, <-worked, p.Close())
}

func (h *ourHoard) handed() int { return int(h.worked.Load()) }

func (h *ourHoard) check(ctx context.Context, least int) error {
	c, err := h.queue.Counts(ctx, queueName)
	if err == nil && c.Waiting+c.Taken+h.worked.Load() < int64(least) {
		err = fmt.Errorf("%d jobs wait, %d are taken and %d have been worked, of %d that were confirmed", c.Waiting, c.Taken, h.worked.Load(), least)
	}
	return err
}

func (h *ourHoard) close() error { return h.queue.Close() }
