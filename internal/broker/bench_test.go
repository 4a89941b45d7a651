package broker

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// each runs do b.N times from so many goroutines, and reports rate and times.
func each(b *testing.B, callers int, do func(n int) error) {
	b.Helper()
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < b.N; n = int(next.Add(1)) - 1 {
				start := time.Now()
				if err := do(n); err != nil {
					b.Error(err)
					return
				}
				took[n] = time.Since(start)
			}
		})
	}
	all.Wait()
	total := time.Since(began)
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/total.Seconds(), "/s")
	b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
	b.ReportMetric(took[(len(took)*99)/100].Seconds()*1e3, "p99-ms")
}

func benchmarkDatasync(b *testing.B) {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "f"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	data := make([]byte, 100)
	each(b, 1, func(int) error {
		if _, err := f.Write(data); err != nil {
			return err
		}
		return dataSync(f)
	})
}

func benchClient(b *testing.B, k *Broker) (jetstream.JetStream, func()) {
	b.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(k.Server()))
	if err != nil {
		b.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		b.Fatal(err)
	}
	return js, nc.Close
}
