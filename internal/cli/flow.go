package cli

import "sync"

// aheadBytes bounds the memory for tasks and results of a run. Beyond it, reading
// pauses until results were written.
const aheadBytes = 64 << 20

// admitMost is the maximum number of items that are admitted and allocated together.
const admitMost = 128

// flow counts the items between reading and writing, and holds ended items until the
// writer takes them. One goroutine admits items, any goroutine may end one, and one
// takes and releases them.
type flow struct {
	limit int

	mu      sync.Mutex
	room    sync.Cond // signals the admitting goroutine
	news    sync.Cond // signals the taking goroutine
	open    int       // guarded by mu
	bytes   int64     // size of open items; guarded by mu
	ended   []*item   // not yet taken; guarded by mu
	read    int64     // lines read so far; guarded by mu
	eof     bool      // admission ended: the input is at its end; guarded by mu
	stopped bool      // admission ended: the run is over; guarded by mu
}

func newFlow(limit int) *flow {
	f := &flow{limit: limit}
	f.room.L, f.news.L = &f.mu, &f.mu
	return f
}

// admit waits until some of n items may be read, and returns how many; 0 means that
// the run is over. When the run is full, admit waits until a quarter of it was
// written, so that items are admitted in batches.
func (f *flow) admit(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	full := func() bool { return f.open >= f.limit || f.bytes >= aheadBytes && f.open > 0 }
	if full() && !f.stopped {
		enough := f.limit
		if f.limit > 256 {
			enough -= f.limit / 4
		}
		for (full() || f.open > enough) && !f.stopped {
			f.room.Wait()
		}
	}
	if f.stopped {
		return 0
	}
	n = min(n, f.limit-f.open, admitMost)
	f.open += n
	f.read += int64(n)
	return n
}

// hold adds bytes used by items.
func (f *flow) hold(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes += bytes
}

// finish marks the end of the input.
func (f *flow) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.eof = true
	f.news.Signal()
}

// stop ends admission.
func (f *flow) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	f.room.Signal()
	f.news.Signal()
}

// end passes an ended item to the writer. It does not block.
func (f *flow) end(it *item) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if it.err == nil {
		now := int64(len(it.result.Payload) + len(it.stderr))
		f.bytes += now - it.bytes
		it.bytes = now
	}
	f.ended = append(f.ended, it)
	if len(f.ended) == 1 {
		f.news.Signal()
	}
}

// take returns the items that ended since the last call, in a slice that the caller
// may return as spare. Without wait, take does not block and may return none; with
// wait, none means that the run has ended.
func (f *flow) take(spare []*item, wait bool) []*item {
	f.mu.Lock()
	defer f.mu.Unlock()
	for wait && len(f.ended) == 0 && !(f.open == 0 && (f.eof || f.stopped)) {
		f.news.Wait()
	}
	batch := f.ended
	f.ended = spare[:0]
	return batch
}

// release frees the places of n items that were written or dropped.
func (f *flow) release(n int, bytes int64) {
	if n == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open -= n
	f.bytes -= bytes
	f.room.Signal()
}

// seen returns the number of lines read, and whether these were all.
func (f *flow) seen() (read int64, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read, f.eof
}
