package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

func bullpens() []system {
	return []system{{id: bullpen, kind: ours, durable: "group commit", needs: []part{worker}, open: openOurs, hoard: openOurHoard,
		title: "Bullpen, embedded engine, 2 warm Go worker processes, `Run`; the durable outcome counts"}}
}

// queueName is the queue of all cells.
const queueName = "bench"

// bullpenQueue is Bullpen's queue with a pool of worker processes.
type bullpenQueue struct {
	queue   *queue.Queue
	pool    *process.Pool // nil where nothing is worked
	started func([]byte, int64)
	stop    context.CancelFunc
	worked  chan error     // of Work, once
	single  sync.WaitGroup // one for each job of an idle system that is awaited
	mu      sync.Mutex
	fault   error // the first of the awaited jobs; guarded by mu
}

func openOurs(ctx context.Context, s site) (contender, error) {
	q := &bullpenQueue{started: s.started, worked: make(chan error, 1)}
	if err := q.start(ctx, s); err != nil {
		return nil, errors.Join(err, q.close())
	}
	return q, nil
}

func (q *bullpenQueue) start(ctx context.Context, s site) (err error) {
	if q.queue, err = queue.Open(ctx, queue.Config{Store: embedded.At(s.Folder)}); err != nil {
		return err
	}
	if !s.Work {
		return nil
	}
	if q.pool, err = process.New(process.Config{Command: []string{s.Worker}, Min: 2, Max: 2}); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	q.stop = stop
	// Started here, ends when stop is called; close waits for it.
	go func() { q.worked <- q.queue.Work(working, q.pool, queue.WorkConfig{Queue: queueName}) }()
	// The workers are warm when one job of each has been worked.
	for range 10 {
		if _, _, err := q.queue.Run(ctx, job.Job{Queue: queueName, Name: "noop"}); err != nil {
			return err
		}
	}
	return nil
}

func (q *bullpenQueue) enqueue(ctx context.Context, payload []byte) error {
	if q.started == nil {
		_, err := q.queue.Enqueue(ctx, job.Job{Queue: queueName, Name: "noop", Payload: payload})
		return err
	}
	// Started here for each job of an idle system, ends with the job; close waits for
	// it. The next job comes with the next tick, so nobody waits for this one.
	q.single.Go(func() {
		_, r, err := q.queue.Run(ctx, job.Job{Queue: queueName, Name: "stamp", Payload: payload})
		var at int64
		if err == nil {
			at, err = strconv.ParseInt(string(r.Payload), 10, 64)
		}
		if err == nil {
			q.started(payload, at)
			return
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.fault == nil {
			q.fault = err
		}
	})
	return nil
}

func (q *bullpenQueue) finish(ctx context.Context, payload []byte) error {
	_, _, err := q.queue.Run(ctx, job.Job{Queue: queueName, Name: "noop", Payload: payload})
	return err
}

func (q *bullpenQueue) close() error {
	q.single.Wait()
	var errs []error
	if q.stop != nil {
		q.stop()
		select {
		case err := <-q.worked:
			errs = append(errs, err)
		case <-time.After(closing):
			errs = append(errs, errors.New("the call of Work does not end"))
		}
	}
	if q.pool != nil {
		errs = append(errs, q.pool.Close())
	}
	if q.queue != nil {
		errs = append(errs, q.queue.Close())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return errors.Join(append(errs, q.fault)...)
}
