//go:build unix

package process

import (
	"context"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// TestBatchCanceledInEveryPlace takes a batch back while its tasks stand with a
// worker, behind a long one there, in the queue and before it. Tasks that have
// been reported are used again at once, by the batch that runs beside.
func TestBatchCanceledInEveryPlace(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Max, c.Queue, c.Grace = 2, 8, 50*time.Millisecond })
	quick := make([]bullpen.Task, 300)
	for i := range quick {
		quick[i] = bullpen.Task{Name: "echo", Payload: []byte{byte(i)}}
	}
	stop := make(chan struct{})
	beside := make(chan int)
	go func() { // ends when stop is closed; the test waits for beside
		n := 0
		for {
			select {
			case <-stop:
				beside <- n
				return
			default:
			}
			for _, e := range p.ExecuteAll(context.Background(), quick) {
				if e.Err != nil || len(e.Result.Payload) != 1 || e.Result.Payload[0] != byte(e.Index) {
					t.Errorf("task %d of the batch beside: %v %v", e.Index, e.Result.Payload, e.Err)
				}
				n++
			}
		}
	}()
	for round := range 60 {
		tasks := make([]bullpen.Task, 200)
		for i := range tasks {
			tasks[i] = bullpen.Task{Name: "echo", Payload: []byte("x")}
			if i%100 == 3 {
				tasks[i] = bullpen.Task{Name: "sleep", Payload: []byte("1h")}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round%4)*500*time.Microsecond)
		canceled := 0
		for i, e := range p.ExecuteAll(ctx, tasks) {
			if e.Index != i {
				t.Fatalf("place %d has the outcome of %d", i, e.Index)
			}
			if e.Err != nil {
				canceled++
			}
		}
		cancel()
		if canceled == 0 {
			t.Fatal("a batch with tasks of an hour ended at once")
		}
	}
	close(stop)
	if n := <-beside; n == 0 {
		t.Error("the batch beside ran no task")
	}
}
