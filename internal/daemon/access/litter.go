package access

import (
	"runtime"
	"sync/atomic"
)

// litter counts the memory of large bodies that is no longer used. When that reaches
// half of http.max_inflight, it starts a garbage collection. By itself the collector
// waits until the heap has doubled, and bodies would take twice their limit.
type litter struct {
	most       int64
	bytes      atomic.Int64
	collecting atomic.Bool
}

const (
	litterShare = 2
	litterLeast = 1 << 20 // smaller bodies do not count
)

func newLitter(room int64) *litter { return &litter{most: max(room/litterShare, 32<<20)} }

// add adds memory of a body that is no longer used.
func (l *litter) add(bytes int64) {
	if bytes < litterLeast || l.bytes.Add(bytes) < l.most || !l.collecting.CompareAndSwap(false, true) {
		return
	}
	l.bytes.Store(0)
	go func() { // ends with the collection; no goroutine waits for it
		defer l.collecting.Store(false)
		runtime.GC()
	}()
}
