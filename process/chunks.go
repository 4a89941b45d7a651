package process

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

const (
	// pieceSize is the largest piece that an observer receives.
	pieceSize = 32 << 10
	// manyBytes is how many bytes may wait for an observer before its worker has to.
	manyBytes = 256 << 10
)

// chunks is the result of a task whose worker sends it in pieces: as CHUNK frames. It is
// created with the first.
type chunks struct {
	pool     *Pool
	observer bullpen.ChunkObserver // nil to join the pieces
	resume   func()                // reads from the worker again

	size int // bytes that have come; Pool.mu guards it

	mu      sync.Mutex
	waiting []byte // bytes that have not been passed on; guarded by mu
	running bool   // a goroutine passes them on; guarded by mu
	full    bool   // the worker waits; guarded by mu
	over    bool   // the outcome has been delivered; guarded by mu
	holds   *call  // the ended task, until all bytes have been passed on; else nil; guarded by mu
}

// chunk takes a piece of a result. The answers that came before it are accounted for first,
// as the piece must not follow that of its own task.
func (d *framesDriver) chunk(m wire.Message) error {
	if err := d.pass(); err != nil {
		return err
	}
	k, mayWait, err := d.chunksOf(m)
	if k != nil {
		// Others also wait for a worker with several tasks, and a task that must end for its
		// answer.
		d.stalled = k.put(m.Body, mayWait) || d.stalled
	}
	return err
}

// chunksOf counts the piece in m, and returns where to put it: nowhere if there were too
// many. mayWait reports whether the worker may be made to wait.
func (d *framesDriver) chunksOf(m wire.Message) (k *chunks, mayWait bool, err error) {
	w, p := d.w, d.w.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	c := w.flight[int(m.Number)&(len(w.flight)-1)]
	switch {
	case !d.hello.Chunks:
		return nil, false, protocol.Invalidf("the worker sent CHUNK, which its HELLO did not announce")
	case c == nil || c.number != m.Number || !w.written(c) || w.concurrency == 1 && m.Number != w.oldest:
		return nil, false, protocol.Invalidf("the worker sent CHUNK for task %d, which it does not run", m.Number)
	case c.chunks == nil:
		c.chunks = &chunks{pool: p, resume: d.resumeReading}
		c.chunks.observer, _ = c.task.Observer.(bullpen.ChunkObserver)
	}
	if c.chunks.size += len(m.Body); c.chunks.size > c.output {
		if c.cause == nil {
			c.cause = fmt.Errorf("%w: the result has more than %d bytes", wire.ErrLong, c.output)
			p.attend(w, p.now())
		}
		return nil, false, nil
	}
	return c.chunks, w.concurrency == 1 && c.cause == nil, nil
}

// put takes bytes that have come. It reports whether no more should be read from the worker
// until resume is called, which is possible with mayWait.
func (k *chunks) put(b []byte, mayWait bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return false
	}
	k.waiting = append(k.waiting, b...)
	if k.observer == nil {
		return false
	}
	if !k.running {
		k.running = true
		// Ends when nothing is left to pass on. The outcome waits for it, except that of a
		// task that has failed, which waits for lastWords only.
		go k.run()
	}
	k.full = k.full || mayWait && len(k.waiting) > manyBytes
	return k.full
}

// run passes bytes on until none are left, and then the outcome that waited for them.
func (k *chunks) run() {
	var spare []byte
	for {
		k.mu.Lock()
		all, full, held := k.waiting, k.full, k.holds
		if len(all) == 0 || k.over {
			k.running, k.holds = false, nil
			k.mu.Unlock()
			if held != nil {
				k.pool.pass(held)
			}
			return
		}
		k.waiting, k.full = spare, false
		k.mu.Unlock()
		if full {
			k.resume()
		}
		for piece := range slices.Chunk(all, pieceSize) {
			k.call(piece)
		}
		if spare = all[:0]; cap(spare) > inputKeep {
			spare = nil
		}
	}
}

// call passes a piece to the observer, unless the outcome has been delivered.
func (k *chunks) call(piece []byte) {
	k.mu.Lock()
	over := k.over
	k.mu.Unlock()
	if over {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			k.pool.logs.fault(fmt.Errorf("an observer of chunks panicked: %v", r))
		}
	}()
	k.observer.Chunk(piece)
}

// rest returns the payload of a task whose answer has the last piece, b: all pieces, or nil
// if an observer receives them.
func (k *chunks) rest(b []byte) []byte {
	if k.observer == nil {
		return append(k.waiting, b...) // no more will come
	}
	k.put(b, false)
	return nil
}

// hold keeps c, which has ended, until all bytes have been passed on. If c has failed, that
// is at most lastWords. It reports false if none are left.
func (k *chunks) hold(c *call) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.running {
		k.over = true
		return false
	}
	k.holds = c
	if c.err != nil {
		time.AfterFunc(lastWords, k.giveUp)
	}
	return true
}

// giveUp delivers the outcome although the observer is slow.
func (k *chunks) giveUp() {
	k.mu.Lock()
	c := k.holds
	k.holds, k.over = nil, true
	k.mu.Unlock()
	if c != nil {
		k.pool.pass(c)
	}
}
