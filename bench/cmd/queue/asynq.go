package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

// asynqs are Asynq on Redis in both ways to sync, and once more with a poll that
// is short enough for a figure of an idle system.
func asynqs() []system {
	const text = "Asynq, 64 concurrent, polls each 1 ms (default 1 s, which is also what a queue that runs empty then waits); the end of the handler counts, not that of its bookkeeping"
	return []system{
		{id: "asynq-always", kind: peer, durable: "AOF always", needs: []part{redis}, fsync: "always", skips: []string{idle}, title: text, open: openAsynq(time.Millisecond)},
		{id: "asynq-everysec", kind: peer, durable: "AOF everysec", needs: []part{redis}, fsync: "everysec", skips: []string{idle}, title: text, open: openAsynq(time.Millisecond)},
		{id: "asynq-default", kind: peer, durable: "AOF always", needs: []part{redis}, fsync: "always", only: []string{idle}, title: "Asynq, polls each 1 s (its default)", open: openAsynq(0)},
		{id: "asynq-5ms", kind: peer, durable: "AOF always", needs: []part{redis}, fsync: "always", only: []string{idle}, title: "Asynq, polls each 5 ms", open: openAsynq(5 * time.Millisecond)},
	}
}

type asynqQueue struct {
	client  *asynq.Client
	server  *asynq.Server // nil where nothing is worked
	slots   *slots
	started func([]byte, int64)
}

func openAsynq(poll time.Duration) func(context.Context, site) (contender, error) {
	return func(_ context.Context, s site) (contender, error) {
		to := asynq.RedisClientOpt{Addr: s.Redis, PoolSize: 80}
		q := &asynqQueue{client: asynq.NewClient(to), slots: newSlots(), started: s.started}
		if !s.Work {
			return q, q.client.Ping()
		}
		q.server = asynq.NewServer(to, asynq.Config{Concurrency: 64, TaskCheckInterval: poll, LogLevel: asynq.ErrorLevel})
		err := q.server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
			if q.started != nil {
				q.started(t.Payload(), clock())
			}
			return q.slots.done(t.Payload())
		}))
		if err != nil {
			return nil, fmt.Errorf("%w, %w", err, q.client.Close())
		}
		return q, nil
	}
}

func (q *asynqQueue) enqueue(ctx context.Context, payload []byte) error {
	_, err := q.client.EnqueueContext(ctx, asynq.NewTask("noop", payload))
	return err
}

func (q *asynqQueue) finish(ctx context.Context, payload []byte) error {
	if err := q.enqueue(ctx, payload); err != nil {
		return err
	}
	return q.slots.wait(ctx, payload)
}

func (q *asynqQueue) close() error {
	if q.server != nil {
		q.server.Shutdown()
	}
	return q.client.Close()
}
