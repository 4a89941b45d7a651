package cli

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The daemon's heap is small, and full of what lives for a request. Collecting it
// whenever it has doubled takes a tenth of the processor at full load; so it may grow
// to heapRoom first. A larger one, which has the outcomes that the queue keeps, is
// collected as usual, so that it is never more than that above the usual.
const (
	heapRoom    = 48 << 20
	mostPercent = 400
	usual       = 100
)

// percent is how much a heap with so much alive may grow, in percent.
func percent(alive uint64) int {
	if alive == 0 {
		return mostPercent
	}
	return min(max(int(heapRoom*100/alive), usual), mostPercent)
}

// tendHeap sets that until ctx ends, unless the environment (GOGC) says how the heap
// is to be collected.
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
		// It stops all goroutines for a moment: small changes are not worth it.
		if next := percent(alive[0].Value.Uint64()); next < now*9/10 || next > now*11/10 {
			now = next
			debug.SetGCPercent(now)
		}
	}
}

// collections tells of each collection of the heap until ctx ends. Looking now and
// then is too late: a heap that was small may have grown by hundreds of megabytes.
func collections(ctx context.Context) <-chan struct{} {
	told := make(chan struct{}, 1)
	var arm func()
	arm = func() {
		runtime.SetFinalizer(new(sentinel), func(*sentinel) {
			select {
			case told <- struct{}{}:
			default: // it is known
			}
			if ctx.Err() == nil {
				arm()
			}
		})
	}
	arm()
	return told
}

// sentinel is collected by the next collection. It has a pointer, so that it has memory
// of its own.
type sentinel struct{ _ *sentinel }
