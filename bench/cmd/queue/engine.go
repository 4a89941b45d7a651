package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// engines are the bare engine in its two ways to sync: what a job queue on it
// cannot beat, and what its own safe mode costs.
func engines() []system {
	return []system{
		{id: "engine", kind: floor, durable: "not for up to 2 min",
			title: "embedded NATS JetStream, default sync; pull consumer, outcome published to a second stream, then ack", open: openEngine(false)},
		{id: "engine-always", kind: floor, durable: "sync always",
			title: "the same, `sync_interval: always`", open: openEngine(true)},
	}
}

const (
	jobSubject     = "jobs.bench"
	outcomeSubject = "outcomes.bench"
)

// engine is JetStream without a job queue around it.
type engine struct {
	server  *server.Server
	conn    *nats.Conn
	stream  jetstream.JetStream
	consume jetstream.ConsumeContext // nil where nothing is worked
	slots   *slots
	started func([]byte, int64)
	working sync.WaitGroup        // one for each job in hand
	broken  atomic.Pointer[error] // the first fault of a handler
}

func openEngine(always bool) func(context.Context, site) (contender, error) {
	return func(ctx context.Context, s site) (contender, error) {
		e := &engine{slots: newSlots(), started: s.started}
		if err := e.start(ctx, s, always); err != nil {
			return nil, errors.Join(err, e.close())
		}
		return e, nil
	}
}

func (e *engine) start(ctx context.Context, s site, always bool) (err error) {
	opts := &server.Options{ServerName: "bench", DontListen: true, JetStream: true, StoreDir: s.Folder, NoSigs: true, NoLog: true}
	if always {
		opts.SyncAlways, opts.SyncInterval = true, 2*time.Minute
	}
	if e.server, err = server.NewServer(opts); err != nil {
		return err
	}
	e.server.Start()
	if !e.server.ReadyForConnections(10 * time.Second) {
		return errors.New("the engine is not ready after 10 s")
	}
	if e.conn, err = nats.Connect("", nats.InProcessServer(e.server)); err != nil {
		return err
	}
	if e.stream, err = jetstream.New(e.conn); err != nil {
		return err
	}
	jobs, err := e.stream.CreateStream(ctx, jetstream.StreamConfig{Name: "JOBS", Subjects: []string{jobSubject},
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage})
	if err != nil {
		return err
	}
	if _, err := e.stream.CreateStream(ctx, jetstream.StreamConfig{Name: "OUTCOMES", Subjects: []string{outcomeSubject}, Storage: jetstream.FileStorage}); err != nil {
		return err
	}
	if !s.Work {
		return nil
	}
	consumer, err := jobs.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "bench", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1000})
	if err != nil {
		return err
	}
	e.consume, err = consumer.Consume(func(m jetstream.Msg) {
		at := clock()
		// Started here for each job, ends when its outcome is stored and its caller
		// told; close waits for it.
		e.working.Go(func() { e.work(ctx, m, at) })
	}, jetstream.PullMaxMessages(256))
	return err
}

// work does nothing for the job and stores its outcome.
func (e *engine) work(ctx context.Context, m jetstream.Msg, at int64) {
	if e.started != nil {
		e.started(m.Data(), at)
	}
	_, err := e.stream.Publish(ctx, outcomeSubject, nil)
	if err == nil {
		err = errors.Join(m.Ack(), e.slots.done(m.Data()))
	}
	if err != nil {
		e.broken.CompareAndSwap(nil, &err)
	}
}

func (e *engine) enqueue(ctx context.Context, payload []byte) error {
	_, err := e.stream.Publish(ctx, jobSubject, payload)
	return err
}

func (e *engine) finish(ctx context.Context, payload []byte) error {
	if err := e.enqueue(ctx, payload); err != nil {
		return err
	}
	if err := e.slots.wait(ctx, payload); err != nil {
		return err
	}
	return e.fault()
}

func (e *engine) fault() error {
	if err := e.broken.Load(); err != nil {
		return fmt.Errorf("a handler: %w", *err)
	}
	return nil
}

func (e *engine) close() error {
	if e.consume != nil {
		e.consume.Stop()
		<-e.consume.Closed()
		e.working.Wait()
	}
	if e.conn != nil {
		e.conn.Close()
	}
	if e.server != nil {
		e.server.Shutdown()
		e.server.WaitForShutdown()
	}
	return e.fault()
}
