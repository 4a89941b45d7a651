package pebble

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// An operation is a task for the committer.
type operation struct {
	kind    operationKind
	put     engine.Put
	puts    []engine.Put // stored together with the removal of ends
	ends    *receipt
	stream  engine.Stream
	seq     uint64
	subject string // the subject of the message to remove, and its size, if known
	size    int64
	of      engine.Consumer
	on      bool
	done    func(seq uint64, err error) // nil if no caller waits
}

// bytes estimates how much the operation adds to a batch.
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
	ending                 // stores puts and removes the message of ends
	removing               // removes the message seq of stream
	pausing                // pauses a consumer, or resumes it, as on says
	turning                // handles what is due
	settling               // only answers
)

const (
	// mostBytes bounds one batch, unless its last message is larger.
	mostBytes = 2 << 20
	// mostOperations bounds one batch.
	mostOperations = 4096
	// lazily is how long an operation without a waiting caller may wait for others.
	lazily = 5 * time.Millisecond
	// mostLazy is how many of them wait at most.
	mostLazy = 256
)

// queue holds the operations that wait for the committer.
type queue struct {
	wake chan struct{}

	mu     sync.Mutex
	line   []operation // guarded by mu
	spare  []operation // guarded by mu
	eager  int         // operations in line with a waiting caller; guarded by mu
	closed bool        // guarded by mu
}

// give adds an operation to the line; closed means that it did not.
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
		default: // a wake-up is pending
		}
	}
	return false
}

// state returns how many operations are in line.
func (q *queue) state() (waiting, eager int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.line), q.eager, q.closed
}

// take removes and returns the whole line.
func (q *queue) take() []operation {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.line
	q.line, q.spare, q.eager = q.spare[:0], nil, 0
	return line
}

// recycle reuses the memory of a line.
func (q *queue) recycle(line []operation) {
	clear(line)
	q.mu.Lock()
	q.spare = line[:0]
	q.mu.Unlock()
}

// close refuses further operations.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// commitLoop executes operations until the queue is closed and empty.
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

// commit executes the whole line, in as many batches as necessary.
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

// Put stores p. The committer calls done.
func (e *Engine) Put(p engine.Put, done func(seq uint64, err error)) {
	if err := e.accept(&p); err != nil {
		done(0, err)
		return
	}
	if e.queue.give(operation{kind: putting, put: p, done: done}) {
		done(0, engine.ErrClosed)
	}
}

// accept returns why a message is refused before it reaches the committer.
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

// Settle calls done when everything stored before has been synced.
func (e *Engine) Settle(done func(err error)) {
	if err := e.usable(); err != nil {
		done(err)
		return
	}
	if e.queue.give(operation{kind: settling, done: func(_ uint64, err error) { done(err) }}) {
		done(engine.ErrClosed)
	}
}
