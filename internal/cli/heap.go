package cli

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The daemon's heap is small and mostly garbage of requests. Collecting it each time
// it has doubled takes a tenth of the processor time at full load, so it may grow to
// heapRoom first. A larger heap, which holds the outcomes that the queue keeps, is
// collected as usual, so memory never exceeds the usual amount by more than heapRoom.
const (
	heapRoom    = 48 << 20
	mostPercent = 400
	usual       = 100
)

// percent returns the GOGC value, in percent, for a heap with alive live bytes.
func percent(alive uint64) int {
	if alive == 0 {
		return mostPercent
	}
	return min(max(int(heapRoom*100/alive), usual), mostPercent)
}

// tendHeap adjusts GOGC until ctx ends, unless the environment sets GOGC.
func tendHeap(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	before := debug.SetGCPercent(mostPercent)
	defer debug.SetGCPercent(before)
	alive := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := mostPercent
	for collected := collections(ctx); ; {
		select {
		case <-ctx.Done():
			return
		case <-collected:
		}
		metrics.Read(alive)
		if alive[0].Value.Kind() != metrics.KindUint64 {
			continue
		}
		// Setting GOGC stops all goroutines for a moment: skip small changes.
		if next := percent(alive[0].Value.Uint64()); next < now*9/10 || next > now*11/10 {
			now = next
			debug.SetGCPercent(now)
		}
	}
}

// collections returns a channel that signals each garbage collection until ctx ends.
// Polling would be too late: a small heap may have grown by hundreds of megabytes.
func collections(ctx context.Context) <-chan struct{} {
	collected := make(chan struct{}, 1)
	var arm func()
	arm = func() {
		runtime.SetFinalizer(new(sentinel), func(*sentinel) {
			select {
			case collected <- struct{}{}:
			default: // already signaled
			}
			if ctx.Err() == nil {
				arm()
			}
		})
	}
	arm()
	return collected
}

// sentinel is an object that the next collection frees. The pointer field keeps it
// out of the allocator's shared tiny blocks.
type sentinel struct{ _ *sentinel }
