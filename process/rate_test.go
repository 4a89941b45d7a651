package process

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

func TestRate(t *testing.T) {
	exe := os.Getenv("GOWORKER")
	if exe == "" {
		t.Skip("no")
	}
	p, err := New(Config{Command: []string{exe}, Min: 2, Max: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx := context.Background()
	if err := p.Ready(ctx, 2); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []struct {
		name string
		size int
		dur  time.Duration
	}{{"null", 4, time.Second}, {"hash", 1024, time.Second}, {"hash", 1 << 20, time.Second}} {
		payload := make([]byte, kind.size)
		for _, callers := range []int{1, 16, 256} {
			var n [256]int
			var wg sync.WaitGroup
			end := time.Now().Add(kind.dur)
			for i := range callers {
				wg.Go(func() {
					for k := 0; ; k++ {
						if k&31 == 0 && time.Now().After(end) {
							return
						}
						if kind.size > 1000000 && time.Now().After(end) {
							return
						}
						if _, err := p.Execute(ctx, bullpen.Task{Name: kind.name, Payload: payload}); err != nil {
							t.Error(err)
							return
						}
						n[i]++
					}
				})
			}
			t0 := time.Now()
			wg.Wait()
			sum := 0
			for _, k := range n {
				sum += k
			}
			s := p.Stats()
			fmt.Printf("%s %d callers %d: %.0f/s  window %d queue %v run %v back %v\n", kind.name, kind.size, callers, float64(sum)/time.Since(t0).Seconds(), s.Window, s.QueueTime.Quantile(.5), s.RunTime.Quantile(.5), s.ReturnTime.Quantile(.5))
		}
		tasks := make([]bullpen.Task, 200000)
		if kind.size > 1000000 {
			tasks = tasks[:1000]
		}
		for i := range tasks {
			tasks[i] = bullpen.Task{Name: kind.name, Payload: payload}
		}
		t0 := time.Now()
		for _, e := range p.ExecuteAll(ctx, tasks) {
			if e.Err != nil {
				t.Fatal(e.Err)
			}
		}
		fmt.Printf("%s %d batch: %.0f/s\n", kind.name, kind.size, float64(len(tasks))/time.Since(t0).Seconds())
	}
}
