package cli

import (
	"context"
	"os"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestHeapMayGrowWhileItIsSmall(t *testing.T) {
	t.Parallel()
	for alive, want := range map[uint64]int{0: 400, 4 << 20: 400, 24 << 20: 200, 48 << 20: 100, 1 << 30: 100} {
		if got := percent(alive); got != want {
			t.Errorf("a heap with %d bytes alive may grow by %d percent, want %d", alive, got, want)
		}
	}
}

// TestHeapIsTendedAtOnce wants a heap that has grown to be collected as a large one
// from its next collection on. It runs alone, for it changes the whole process.
func TestHeapIsTendedAtOnce(t *testing.T) { //nolint:paralleltest // see above
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC says how the heap is collected")
	}
	ctx, cancel := context.WithCancel(t.Context())
	tended := make(chan struct{})
	go func() { // ends with ctx; waited for below
		defer close(tended)
		tendHeap(ctx)
	}()
	defer func() { cancel(); <-tended }()
	large := make([]byte, 128<<20)
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	end := time.After(4 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		runtime.GC()
		if metrics.Read(now); now[0].Value.Uint64() == usual {
			break
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("with %d bytes alive the heap may still grow by %d percent", len(large), now[0].Value.Uint64())
		}
	}
	runtime.KeepAlive(large)
}
