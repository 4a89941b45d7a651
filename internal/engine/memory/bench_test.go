package memory

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// BenchmarkJob is one job of 100 bytes: put, delivered, acknowledged.
func BenchmarkJob(b *testing.B) {
	e, err := Open(engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	c := engine.Consumer{Queue: "q", Priority: "normal"}
	left := make(chan struct{})
	got := 0
	var taker engine.Taker
	taker, err = e.Take(c, func(d engine.Delivery) {
		d.Ack()
		if got++; got%32 == 0 {
			taker.Request(32, true)
		}
		if got == b.N {
			close(left)
		}
	}, func(int) {})
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 100)
	b.ReportAllocs()
	b.ResetTimer()
	taker.Request(64, true)
	for i := range b.N {
		e.Put(engine.Put{Subject: "job.q.normal." + strconv.Itoa(i), Data: data, Durable: true, New: true}, func(_ uint64, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	<-left
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkDone is the same, with an outcome put before the acknowledgement and
// many callers.
func BenchmarkDone(b *testing.B) {
	e, err := Open(engine.Options{OutcomeCount: 10_000})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close(context.Background())
	c := engine.Consumer{Queue: "q", Priority: "normal"}
	left := make(chan struct{})
	got := 0
	var taker engine.Taker
	taker, err = e.Take(c, func(d engine.Delivery) {
		e.Put(engine.Put{Stream: engine.Outcomes, Subject: "out." + engine.LastToken(d.Subject), Data: d.Data, Durable: true}, func(uint64, error) { d.Ack() })
		if got++; got%32 == 0 {
			taker.Request(32, true)
		}
		if got == b.N {
			close(left)
		}
	}, func(int) {})
	if err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 100)
	b.ReportAllocs()
	b.ResetTimer()
	taker.Request(64, true)
	var caller atomic.Uint64
	b.RunParallel(func(p *testing.PB) {
		i := 0
		base := "job.q.normal." + strconv.FormatUint(caller.Add(1), 10) + "-"
		for p.Next() {
			i++
			e.Put(engine.Put{Subject: base + strconv.Itoa(i), Data: data, Durable: true}, func(uint64, error) {})
		}
	})
	<-left
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
