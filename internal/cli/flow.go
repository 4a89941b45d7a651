package cli

import "sync"

// aheadBytes bounds the tasks and results that a run holds: beyond it, nothing
// more is read until something has been written.
const aheadBytes = 64 << 20

// admitMost is the most items that are admitted, and allocated, together.
const admitMost = 128

// flow counts the items between being read and being written, and holds those
// that have ended until the writer takes them. One goroutine admits, any may
// end an item, one takes and releases.
type flow struct {
	limit int

	mu      sync.Mutex
	room    sync.Cond // for who admits
	news    sync.Cond // for who takes
	open    int       // +checklocks:mu
	bytes   int64     // of open items; +checklocks:mu
	ended   []*item   // not taken yet; +checklocks:mu
	read    int64     // lines so far; +checklocks:mu
	eof     bool      // nothing more is admitted, the input is at its end; +checklocks:mu
	stopped bool      // nothing more is admitted, the run is over; +checklocks:mu
}

func newFlow(limit int) *flow {
	f := &flow{limit: limit}
	f.room.L, f.news.L = &f.mu, &f.mu
	return f
}

// admit waits until some of n items may be read, and says how many; 0 when the
// run is over. Once the run is full it waits for a fourth of it to be written,
// so that items are admitted many at a time.
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

// hold counts bytes that items take.
func (f *flow) hold(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes += bytes
}

// finish notes the end of the input.
func (f *flow) finish() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.eof = true
	f.news.Signal()
}

// stop ends the admission.
func (f *flow) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	f.room.Signal()
	f.news.Signal()
}

// end hands an item that has ended to the writer. It does not wait.
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

// take returns the items that have ended since the last call, in a slice that
// may be given back as spare. Without wait it returns none rather than wait; with
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

// release gives back n items that were written or dropped.
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

// seen returns how many lines were read, and whether these were all.
func (f *flow) seen() (read int64, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read, f.eof
}
