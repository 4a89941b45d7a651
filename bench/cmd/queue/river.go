package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// rivers are River with the two moments that may count as the end of a job: its
// handler has returned, or River says that the job is complete, which it does some
// time after.
func rivers() []system {
	const text = "River, single inserts, 100 workers, 16 connections, fetch cooldown 1 ms"
	return []system{
		{id: "river", kind: peer, durable: "commit", needs: []part{postgres}, open: openRiver(false),
			title: text + "; the end of the handler counts, not that of its bookkeeping"},
		{id: "river-completed", kind: peer, durable: "commit", needs: []part{postgres}, only: []string{end2end64}, open: openRiver(true),
			title: text + "; its event that the job is complete counts"},
	}
}

// riverArgs are the arguments of a job, which River keeps as JSON.
type riverArgs struct {
	Text string `json:"text"`
}

func (riverArgs) Kind() string { return "noop" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	started func([]byte, int64)
	ended   func([]byte) error // nil where the event counts
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	if w.started != nil {
		w.started([]byte(job.Args.Text), clock())
	}
	if w.ended != nil {
		return w.ended([]byte(job.Args.Text))
	}
	return nil
}

type riverQueue struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	slots  *slots
	// stop ends the events; nil where nothing is worked.
	stop   func()
	events <-chan *river.Event
	ended  chan error // of the reader of the events, once
}

func openRiver(completed bool) func(context.Context, site) (contender, error) {
	return func(ctx context.Context, s site) (contender, error) { return newRiver(ctx, s, completed) }
}

func newRiver(ctx context.Context, s site, completed bool) (contender, error) {
	config, err := pgxpool.ParseConfig(s.Postgres)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 16 // see the README for what else was tried
	q := &riverQueue{slots: newSlots(), ended: make(chan error, 1)}
	if q.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if err := q.start(ctx, s, completed); err != nil {
		q.pool.Close()
		return nil, err
	}
	return q, nil
}

func (q *riverQueue) start(ctx context.Context, s site, completed bool) error {
	driver := riverpgxv5.New(q.pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	workers := river.NewWorkers()
	work := &riverWorker{started: s.started}
	if !completed {
		work.ended = q.slots.done
	}
	river.AddWorker(workers, work)
	config := &river.Config{Workers: workers, FetchCooldown: time.Millisecond, FetchPollInterval: time.Second,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))}
	if s.Work {
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}}
	}
	if q.client, err = river.NewClient(driver, config); err != nil || !s.Work {
		return err
	}
	if !completed {
		q.stop = func() {}
		q.ended <- nil
		return q.client.Start(ctx)
	}
	q.events, q.stop = q.client.SubscribeConfig(&river.SubscribeConfig{ChanSize: 100_000,
		Kinds: []river.EventKind{river.EventKindJobCompleted, river.EventKindJobFailed}})
	// Started here, ends when the client stops; close waits for it.
	go func() { q.ended <- q.read() }()
	return q.client.Start(ctx)
}

// read tells the callers whose jobs have been completed.
func (q *riverQueue) read() (fault error) {
	for e := range q.events {
		var args riverArgs
		err := json.Unmarshal(e.Job.EncodedArgs, &args)
		if e.Kind != river.EventKindJobCompleted {
			err = fmt.Errorf("job %d: %s", e.Job.ID, e.Kind)
		}
		if err = errors.Join(err, q.slots.done([]byte(args.Text))); err != nil && fault == nil {
			fault = err
		}
	}
	return fault
}

func (q *riverQueue) enqueue(ctx context.Context, payload []byte) error {
	_, err := q.client.Insert(ctx, riverArgs{Text: string(payload)}, nil)
	return err
}

func (q *riverQueue) finish(ctx context.Context, payload []byte) error {
	if err := q.enqueue(ctx, payload); err != nil {
		return err
	}
	return q.slots.wait(ctx, payload)
}

// closing bounds the end of a peer.
const closing = 20 * time.Second

func (q *riverQueue) close() (err error) {
	defer q.pool.Close()
	if q.stop == nil {
		return nil
	}
	ctx, done := context.WithTimeout(context.Background(), closing)
	defer done()
	err = q.client.Stop(ctx)
	q.stop()
	select {
	case fault := <-q.ended:
		return errors.Join(err, fault)
	case <-ctx.Done():
		return errors.Join(err, errors.New("the events of River do not end"))
	}
}
