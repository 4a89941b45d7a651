package pebble

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// An operation is something that the committer is to do.
type operation struct {
	kind    operationKind
	put     engine.Put
	puts    []engine.Put // stored together, when ends has its message leave
	ends    *receipt
	stream  engine.Stream
	seq     uint64
	subject string // of the message to remove, and its size, where they are known
	size    int64
	of      engine.Consumer
	on      bool
	done    func(seq uint64, err error) // nil where nobody waits
}

// bytes is about how much the operation adds to a batch.
func (o *operation) bytes() int {
	n := len(o.put.Data)
	for i := range o.puts {
		n += len(o.puts[i].Data)
	}
	return n
}

type operationKind uint8

const (
	putting  operationKind = iota
	ending                 // puts, and the message of ends is removed
	removing               // the message seq of stream
	pausing                // of, or not, by on
	turning                // what is due
	settling               // answers only
)

const (
	// mostBytes of one batch, but for a last message that is larger by itself.
	mostBytes = 2 << 20
	// mostOperations of one batch.
	mostOperations = 4096
	// lazily is how long an operation nobody waits for may wait for others.
	lazily = 5 * time.Millisecond
	// mostLazy of them are not kept waiting.
	mostLazy = 256
)

// queue is what waits for the committer.
type queue struct {
	wake chan struct{}

	mu     sync.Mutex
	line   []operation // +checklocks:mu
	spare  []operation // +checklocks:mu
	eager  int         // how many of the line somebody waits for; +checklocks:mu
	closed bool        // +checklocks:mu
}

// give puts an operation in line; closed says that it was not.
func (q *queue) give(o operation) (closed bool) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return true
	}
	q.line = append(q.line, o)
	wake := len(q.line) == 1 || len(q.line) == mostLazy
	if o.done != nil || o.kind == turning {
		q.eager++
		wake = wake || q.eager == 1
	}
	q.mu.Unlock()
	if wake {
		select {
		case q.wake <- struct{}{}:
		default: // it will look anyway
		}
	}
	return false
}

// state says what is in line.
func (q *queue) state() (waiting, eager int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.line), q.eager, q.closed
}

// take gives all that is in line.
func (q *queue) take() []operation {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.line
	q.line, q.spare, q.eager = q.spare[:0], nil, 0
	return line
}

// recycle has the room of a line used again.
func (q *queue) recycle(line []operation) {
	clear(line)
	q.mu.Lock()
	q.spare = line[:0]
	q.mu.Unlock()
}

// close takes nothing more.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// commitLoop does what is in line until the queue is closed and empty.
func (e *Engine) commitLoop() {
	defer close(e.writing)
	timer := time.NewTimer(lazily)
	defer timer.Stop()
	for {
		waiting, eager, closed := e.queue.state()
		switch {
		case waiting == 0 && closed:
			return
		case eager > 0 || closed || waiting >= mostLazy:
			e.commit()
			continue
		case waiting == 0:
			<-e.queue.wake
			continue
		}
		timer.Reset(lazily)
		select {
		case <-e.queue.wake:
		case <-timer.C:
			e.commit()
		}
	}
}

// commit does all that is in line, in as many batches as it takes.
func (e *Engine) commit() {
	line := e.queue.take()
	for rest := line; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && n < mostOperations && (n == 0 || size+rest[n].bytes() <= mostBytes) {
			size += rest[n].bytes()
			n++
		}
		e.commitGroup(rest[:n])
		rest = rest[n:]
	}
	e.queue.recycle(line)
}

// Put stores p. done is called by the committer.
func (e *Engine) Put(p engine.Put, done func(seq uint64, err error)) {
	if err := e.accept(&p); err != nil {
		done(0, err)
		return
	}
	if e.queue.give(operation{kind: putting, put: p, done: done}) {
		done(0, engine.ErrClosed)
	}
}

// accept says why a message is not even given to the committer.
func (e *Engine) accept(p *engine.Put) error {
	if err := errors.Join(e.usable(), engine.CheckPut(*p)); err != nil {
		return err
	}
	if p.Stream != engine.Jobs {
		return nil
	}
	if err := e.room.ask(int64(len(p.Data))); err != nil {
		return fmt.Errorf("put %s: %w", p.Subject, err)
	}
	return nil
}

// Settle calls done when all that was stored before has been synced.
func (e *Engine) Settle(done func(err error)) {
	if err := e.usable(); err != nil {
		done(err)
		return
	}
	if e.queue.give(operation{kind: settling, done: func(_ uint64, err error) { done(err) }}) {
		done(engine.ErrClosed)
	}
}
