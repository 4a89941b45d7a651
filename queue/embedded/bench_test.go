package embedded_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/pool"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
)

// BenchmarkMixedPriorities runs durable jobs of all priorities for 48 callers on an
// elastic pool, and tells how long each priority takes.
func BenchmarkMixedPriorities(b *testing.B) {
	const callers, priorities = 48, 3
	q, err := queue.Open(b.Context(), queue.Config{Store: embedded.At(b.TempDir())})
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	p, err := pool.New(pool.Config{Max: 4, Handlers: map[string]bullpen.Handler{
		"echo": func(_ context.Context, t bullpen.Task) ([]byte, error) { return t.Payload, nil },
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(b.Context())
	var work sync.WaitGroup
	work.Go(func() { // ends with ctx; waited for below
		if err := q.Work(ctx, p, queue.WorkConfig{}); err != nil {
			b.Error(err)
		}
	})
	defer work.Wait()
	defer cancel()

	var mu sync.Mutex
	var took [priorities][]time.Duration // guarded by mu
	var group sync.WaitGroup
	b.ResetTimer()
	for c := range callers {
		group.Go(func() {
			for n := c; n < b.N; n += callers {
				p, began := job.Priority((c+n/(7*callers))%priorities), time.Now()
				if _, _, err := q.Run(ctx, job.Job{Name: "echo", Priority: p}); err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				took[p] = append(took[p], time.Since(began))
				mu.Unlock()
			}
		})
	}
	group.Wait()
	b.StopTimer()
	for p := range took {
		if all := took[p]; len(all) > 0 {
			slices.Sort(all)
			name := job.Priority(p).String()
			b.ReportMetric(all[len(all)/2].Seconds()*1e3, name+"-p50-ms")
			b.ReportMetric(all[len(all)*99/100].Seconds()*1e3, name+"-p99-ms")
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
