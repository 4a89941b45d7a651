package pebble

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// openBench opens a store in a folder of the machine.
func openBench(b *testing.B, o engine.Options) *Engine {
	b.Helper()
	e, err := Open(b.Context(), Config{Dir: b.TempDir(), Options: o})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return e
}

// wait puts p and waits for the answer.
func (a *Engine) wait(p engine.Put) error {
	answer := make(chan error, 1)
	a.Put(p, func(_ uint64, err error) { answer <- err })
	return <-answer
}

// callers has so many goroutines share b.N calls, and tells how long one takes.
func callers(b *testing.B, n int, call func(i int) error) {
	b.Helper()
	var next atomic.Int64
	took := make([][]time.Duration, n)
	var group sync.WaitGroup
	b.ResetTimer()
	for c := range n {
		group.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				began := time.Now()
				if err := call(int(i)); err != nil {
					b.Error(err)
					return
				}
				took[c] = append(took[c], time.Since(began))
			}
		})
	}
	group.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "jobs/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-µs")
}

// rising gives ids that rise, as those of jobs do.
func rising(i int) string { return fmt.Sprintf("%026d", i) }

// BenchmarkPut puts durable jobs of 100 bytes.
func BenchmarkPut(b *testing.B) {
	data := make([]byte, 100)
	for _, n := range []int{1, 64} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			e := openBench(b, engine.Options{})
			callers(b, n, func(i int) error {
				return e.wait(engine.Put{Subject: "job.q.normal." + rising(i), Data: data, Durable: true, New: true})
			})
		})
	}
}

// BenchmarkDataSync is what one caller is compared with: as many bytes, appended and
// synced.
func BenchmarkDataSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(64 << 20); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 256)
	at := int64(0)
	callers(b, 1, func(int) error {
		at = (at + int64(len(data))) % (64 << 20)
		if _, err := f.WriteAt(data, at); err != nil {
			return err
		}
		return dataSync(f)
	})
}

// BenchmarkDone puts jobs, takes them, puts their outcomes, and acknowledges them.
func BenchmarkDone(b *testing.B) {
	e := openBench(b, engine.Options{OutcomeCount: 100_000})
	var mu sync.Mutex
	waiting := map[string]chan error{} // guarded by mu
	taker, err := e.Take(engine.Consumer{Queue: "q", Priority: "normal"}, func(d engine.Delivery) {
		id := engine.LastToken(d.Subject)
		e.Put(engine.Put{Stream: engine.Outcomes, Subject: "out." + id, Data: d.Data, Durable: true, New: true}, func(_ uint64, err error) {
			d.Ack()
			mu.Lock()
			done := waiting[id]
			delete(waiting, id)
			mu.Unlock()
			done <- err
		})
	}, func(int) {})
	if err != nil {
		b.Fatal(err)
	}
	defer taker.Stop()
	taker.Request(1<<30, true)
	data := make([]byte, 100)
	callers(b, 64, func(i int) error {
		id, done := rising(i), make(chan error, 1)
		mu.Lock()
		waiting[id] = done
		mu.Unlock()
		if err := e.wait(engine.Put{Subject: "job.q.normal." + id, Data: data, Durable: true, New: true}); err != nil {
			return err
		}
		return <-done
	})
}
