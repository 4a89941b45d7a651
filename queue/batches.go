package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// batches are the batches that this program counts. Nothing of it is on the path of
// a job but to set a bit when its outcome is recorded. What is counted is stored a
// little later, for whoever goes on after this program; what was not stored by then
// is found out from the outcomes themselves (see survey).
type batches struct {
	queue *Queue
	run   string        // names this run of the node
	wake  chan struct{} // capacity 1: there are rosters in told, or stale is set
	stale atomic.Bool   // another node has changed a record

	mu   sync.Mutex
	open map[string]*roster // by id; guarded by mu
	told []*roster          // that are to be looked at; guarded by mu

	// The last messages that were seen on a store that is shared; owned by the
	// goroutine of run.
	lastRecord, lastBits uint64
}

const (
	// storePause is how often what is counted is stored at most.
	storePause = 100 * time.Millisecond
	// tickPause is how often batches are looked after that make no progress, and
	// what other nodes have stored is read; idlePause where no batch is open.
	tickPause = time.Second
	idlePause = 5 * time.Second
	// showPause is how often the progress of a batch is told at most.
	showPause = time.Second
)

func (b *batches) init(q *Queue) {
	b.queue, b.run = q, ulid.Make().String()
	b.wake, b.open = make(chan struct{}, 1), make(map[string]*roster)
}

// of returns the roster of a batch, a new one where it has none yet: the loop reads
// its record then.
func (b *batches) of(id string) *roster {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.open[id]
	if t == nil {
		t = newRoster(b, id)
		b.open[id] = t
		t.told = true
		b.tellLocked(t)
	}
	return t
}

// tell has the loop look at a roster soon.
func (b *batches) tell(t *roster) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tellLocked(t)
}

func (b *batches) tellLocked(t *roster) {
	b.told = append(b.told, t)
	b.signal()
}

func (b *batches) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *batches) forget(t *roster) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[t.id] == t {
		delete(b.open, t.id)
	}
}

// size is how many batches are counted.
func (b *batches) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open)
}

// all returns the rosters of now.
func (b *batches) all() []*roster {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]*roster, 0, len(b.open))
	for _, t := range b.open {
		all = append(all, t)
	}
	return all
}

// known returns the roster of a batch, nil where there is none.
func (b *batches) known(id string) *roster {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open[id]
}

// made begins to count a batch that this program has made.
func (b *batches) made(r *batchRecord) {
	b.of(r.id).learn(r)
}

// learn takes in a record, where its batch is counted here.
func (b *batches) learn(r *batchRecord) {
	if t := b.known(r.id); t != nil {
		t.learn(r)
	}
}

// ready returns the roster of a batch once its record was read.
func (b *batches) ready(ctx context.Context, id string) (*roster, error) {
	t := b.of(id)
	select {
	case <-t.ready:
		return t, nil
	case <-b.queue.live.Done():
		return nil, ErrClosed
	case <-b.queue.engine.Failed():
		return nil, b.queue.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// counted tells whether a job is of a member that has ended, as a copy of it may be
// that was put again.
func (q *Queue) counted(s *stored) bool {
	if s.batch == "" {
		return false
	}
	t := q.batches.known(s.batch)
	return t != nil && t.has(s.index)
}

// noteEnd counts a job that has ended, where it ends a member of a batch.
func (q *Queue) noteEnd(e *ending) {
	if e.batch == "" || e.next != "" {
		return
	}
	q.batches.of(e.batch).note(e.index, fateOf(e), e.id)
}

// loop looks after all batches until the queue is closed. It is one goroutine for
// each Queue, and idle while there are none on a store that is not shared.
func (b *batches) loop() {
	q := b.queue
	stop := b.hear()
	defer stop()
	b.again(b.readAll)
	timer := time.NewTimer(0)
	defer timer.Stop()
	armed := true
	for q.live.Err() == nil {
		select {
		case <-q.live.Done():
			continue
		case <-b.wake:
			if b.stale.Swap(false) {
				b.readRecords(false) //nolint:errcheck // the next tick reads them too
			}
			b.look()
			q.pauseFor(storePause)
		case <-timer.C:
			armed = false
			b.tick()
		}
		if pause := b.pause(); !armed && pause > 0 {
			armed = true
			timer.Reset(pause)
		}
	}
	b.look() // what is counted last is stored if it still can be
}

// again tries until it succeeds or the queue is closed.
func (b *batches) again(try func() error) {
	q := b.queue
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		err := try()
		if err == nil || q.hopeless(err) || !q.pauseFor(wait) {
			return
		}
		q.journal.emit(Event{Kind: NotKept, Text: "the batches could not be read: " + err.Error()})
	}
}

// pause is how long until the next tick, 0 for none.
func (b *batches) pause() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.open) > 0:
		return tickPause
	case b.queue.engine.Shared():
		return idlePause
	default:
		return 0
	}
}

// look reads the records of new rosters and stores what was counted.
func (b *batches) look() {
	b.mu.Lock()
	told := b.told
	b.told = nil
	b.mu.Unlock()
	for _, t := range told {
		t.mu.Lock()
		t.told = false
		read := t.record != nil
		t.mu.Unlock()
		if !read && b.queue.live.Err() == nil {
			if err := b.read(t); err != nil {
				b.queue.journal.emit(Event{Kind: NotKept, Batch: t.id, Text: "the batch could not be read: " + err.Error()})
				continue // the next tick tries again
			}
		}
		b.store(t)
	}
}

// read reads the record of a batch and what nodes have counted of it.
func (b *batches) read(t *roster) error {
	q := b.queue
	r, err := q.readBatch(q.live, t.id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) {
		if errors.Is(err, ErrDamaged) {
			q.damaged("", t.id, err)
		}
		t.leave()
		return nil
	}
	if err != nil {
		return err
	}
	t.learn(r)
	if r.final() {
		return nil
	}
	return b.scan("set.bend."+t.id+".>", 1, func(m engine.Message) { b.readBits(m, t) })
}

// readBits takes in what a run of a node has counted.
func (b *batches) readBits(m engine.Message, t *roster) {
	_, number, run, ok := parseBits(m.Subject)
	if !ok || run == b.run {
		return
	}
	c, created, err := decodeChunk(m.Subject, m.Data)
	if err != nil {
		return // it is found out from the outcomes
	}
	t.mu.Lock()
	t.stored = true
	t.mu.Unlock()
	t.merge(number, c, created)
}

// scan calls each for all messages of a subject from a sequence number on.
func (b *batches) scan(subject string, from uint64, each func(engine.Message)) error {
	for {
		page, err := b.queue.engine.Scan(b.queue.live, engine.State, subject, from, scanPage)
		if err != nil {
			return err
		}
		for _, m := range page {
			from = m.Seq + 1
			each(m)
		}
		if len(page) < scanPage {
			return nil
		}
	}
}

// readAll reads all batches that are not done, at the start, and removes what was
// counted of others. The members of those that are there are looked for at once.
func (b *batches) readAll() error {
	if err := b.readRecords(true); err != nil {
		return err
	}
	var left []uint64
	err := b.scan("set.bend.>", 1, func(m engine.Message) {
		id, _, _, ok := parseBits(m.Subject)
		b.lastBits = m.Seq
		switch t := b.known(id); {
		case !ok:
		case t == nil && time.Since(m.Time) > tickPause: // nobody is about to count it
			left = append(left, m.Seq)
		case t != nil:
			b.readBits(m, t)
		}
	})
	for _, seq := range left {
		if err == nil {
			err = b.queue.engine.Delete(b.queue.live, engine.State, seq)
		}
	}
	return err
}

// readRecords reads the records of batches that were stored since the last time.
func (b *batches) readRecords(first bool) error {
	q := b.queue
	return b.scan("set.batch.*", b.lastRecord+1, func(m engine.Message) {
		b.lastRecord = m.Seq
		r, err := decodeBatch(m)
		if err != nil {
			if first {
				q.damaged("", engine.LastToken(m.Subject), err)
			}
			return
		}
		t := b.known(r.id)
		if r.final() || t != nil && !first {
			b.learn(r)
			return
		}
		t = b.of(r.id)
		if first {
			t.mu.Lock()
			t.lookAt = time.Now()
			t.cancels = t.cancels || !q.engine.Shared()
			t.mu.Unlock()
		}
		t.learn(r)
		if !first {
			b.scan("set.bend."+t.id+".>", 1, func(m engine.Message) { b.readBits(m, t) }) //nolint:errcheck // it is found out from the outcomes
		}
	})
}
