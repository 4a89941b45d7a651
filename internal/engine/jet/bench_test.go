package jet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/natstest"
)

// callers is how many wait for an answer at the same time.
const callers = 64

// bare returns an engine on a server that syncs now and then: what is measured is the
// engine and the server.
func bare(tb testing.TB) *Engine {
	tb.Helper()
	conn, err := Connect(natstest.Start(tb, natstest.Config{Lazy: true}).URL(), "bench")
	if err != nil {
		tb.Fatal(err)
	}
	e, err := Open(tb.Context(), Config{Conn: conn, Owned: true, Options: engine.Options{Namespace: "bench", Jobs: 8 << 30}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			tb.Error(err)
		}
	})
	return e
}

var mail = engine.Consumer{Queue: "mail", Priority: "normal"}

func jobID(n uint64) string { return fmt.Sprintf("01%024d", n) }

// each runs f for b.N numbers, with callers of them at the same time.
func each(b *testing.B, f func(n uint64)) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	var last atomic.Uint64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for n := last.Add(1); n <= uint64(b.N); n = last.Add(1) {
				f(n)
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "per_s")
}

func BenchmarkPut(b *testing.B) {
	e := bare(b)
	data := make([]byte, 100)
	answers := sync.Pool{New: func() any { return make(chan error, 1) }}
	each(b, func(n uint64) {
		answer := answers.Get().(chan error)
		e.Put(engine.Put{Stream: engine.Jobs, Subject: engine.JobSubject(mail, jobID(n)), Data: data}, func(_ uint64, err error) { answer <- err })
		if err := <-answer; err != nil {
			b.Error(err)
		}
		answers.Put(answer)
	})
}

// BenchmarkPublishMsg is what the client library does for the same.
func BenchmarkPublishMsg(b *testing.B) {
	e := bare(b)
	js, err := jetstream.New(e.conn)
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 100)
	each(b, func(n uint64) {
		if _, err := js.Publish(b.Context(), e.prefix+engine.JobSubject(mail, jobID(n)), data); err != nil {
			b.Error(err)
		}
	})
}

// benchmarkLoop is a queue in small: each job is put, handed out, its outcome is
// put, and it is acknowledged; then the next is put. The jobs go round by
// themselves, so that no goroutine of the benchmark is measured. Requests are
// made as a queue makes them: for a number of free workers at once.
func benchmarkLoop(b *testing.B, together int64) {
	b.Helper()
	e := bare(b)
	data := make([]byte, 100)
	var begun, ended, free atomic.Int64
	over := make(chan struct{})
	answered := func(_ uint64, err error) {
		if err != nil {
			b.Error(err)
		}
	}
	put := func() {
		if n := begun.Add(1); n <= int64(b.N) {
			e.Put(engine.Put{Stream: engine.Jobs, Subject: engine.JobSubject(mail, jobID(uint64(n))), Data: data}, answered)
		}
	}
	var taker engine.Taker
	taker, err := e.Take(mail, func(d engine.Delivery) {
		e.Put(engine.Put{Stream: engine.Outcomes, Subject: "out." + engine.LastToken(d.Subject), Data: data}, func(seq uint64, err error) {
			answered(seq, err)
			d.Ack()
			if free.Add(1) == together {
				free.Add(-together)
				taker.Request(int(together), true)
			}
			if ended.Add(1) == int64(b.N) {
				close(over)
				return
			}
			put()
		})
	}, func(int) {})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	taker.Request(2*callers, true)
	for range callers {
		put()
	}
	<-over
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "per_s")
}

func BenchmarkLoop(b *testing.B) {
	for _, together := range []int64{1, 8} {
		b.Run(fmt.Sprintf("requests=%d", together), func(b *testing.B) { benchmarkLoop(b, together) })
	}
}
