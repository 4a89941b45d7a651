package guard

import (
	"runtime"
	"sync/atomic"
)

// litter is the memory of large bodies that nobody uses any more. It is collected when
// it is half of what all bodies may have (http.max_inflight): a heap is collected by
// itself only when it has doubled, and then bodies would take twice their bound.
type litter struct {
	most       int64
	bytes      atomic.Int64
	collecting atomic.Bool
}

const (
	litterShare = 2
	litterLeast = 1 << 20 // what is smaller does not count
)

func newLitter(room int64) *litter { return &litter{most: max(room/litterShare, 32<<20)} }

// add says that so much memory of a body is no longer used.
func (l *litter) add(bytes int64) {
	if bytes < litterLeast || l.bytes.Add(bytes) < l.most || !l.collecting.CompareAndSwap(false, true) {
		return
	}
	l.bytes.Store(0)
	go func() { // ends with the collection, which waits for nobody
		defer l.collecting.Store(false)
		runtime.GC()
	}()
}
