package batch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/internal/queue/run"
	"github.com/bullpen-run/bullpen/job"
)

// Batches counts the members of batches in this program. On the path of a job it only
// sets a bit when the job's outcome is recorded. The counts are stored a little later,
// for a program that continues after this one; ends that were not stored by then are
// found from the outcomes (see survey).
type Batches struct {
	*run.Node

	Counters counters
	run      string        // names this run of the node
	wake     chan struct{} // capacity 1: pending has rosters, or stale is set
	stale    atomic.Bool   // another node has changed a record

	mu      sync.Mutex
	open    map[string]*roster // by id; guarded by mu
	pending []*roster          // to be handled by the next look; guarded by mu

	// The last messages seen on a shared store; owned by the goroutine of loop.
	lastRecord, lastBits uint64
}

const (
	// storePause is the shortest time between two stores of the counts.
	storePause = 100 * time.Millisecond
	// TickPause is how often batches without progress are checked and what other nodes
	// have stored is read; idlePause is the same while no batch is open.
	TickPause = time.Second
	idlePause = 5 * time.Second
	// showPause is the shortest time between two progress events of a batch.
	showPause = time.Second
)

// New returns the batches of a node. The node reports ended jobs to them; Begin starts
// the counting.
func New(n *run.Node) *Batches {
	b := &Batches{Node: n, run: ulid.Make().String(), wake: make(chan struct{}, 1), open: make(map[string]*roster)}
	n.MemberEnded, n.Above.Ended = b.counted, b.noteEnd
	return b
}

// Begin starts the goroutine that counts, which ends when the queue is closed.
func (q *Batches) Begin() { q.Background.Go(q.loop) } // ends with Live

// counters are the counts for Stats.
type counters struct{ Opened, Ended, Callbacks, Missing atomic.Uint64 }

// of returns the roster of a batch. A new one is created if necessary; the loop then
// reads its record.
func (q *Batches) of(id string) *roster {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.open[id]
	if t == nil {
		t = newRoster(q, id)
		q.open[id] = t
		t.pending = true
		q.handleSoonLocked(t)
	}
	return t
}

// handleSoon makes the loop handle a roster soon.
func (q *Batches) handleSoon(t *roster) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.handleSoonLocked(t)
}

func (q *Batches) handleSoonLocked(t *roster) {
	q.pending = append(q.pending, t)
	q.signal()
}

func (q *Batches) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *Batches) forget(t *roster) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open[t.id] == t {
		delete(q.open, t.id)
	}
}

// Size returns how many batches are counted.
func (q *Batches) Size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.open)
}

// all returns the current rosters.
func (q *Batches) all() []*roster {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]*roster, 0, len(q.open))
	for _, t := range q.open {
		all = append(all, t)
	}
	return all
}

// known returns the roster of a batch, nil for none.
func (q *Batches) known(id string) *roster {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.open[id]
}

// made starts to count a batch that this program has created.
func (q *Batches) made(r *record.Batch) {
	q.of(r.ID).learn(r)
}

// learn applies a record, if its batch is counted here.
func (q *Batches) learn(r *record.Batch) {
	if t := q.known(r.ID); t != nil {
		t.learn(r)
	}
}

// ready returns the roster of a batch after its record was read.
func (q *Batches) ready(ctx context.Context, id string) (*roster, error) {
	t := q.of(id)
	select {
	case <-t.ready:
		return t, nil
	case <-q.Live.Done():
		return nil, job.ErrClosed
	case <-q.Engine.Failed():
		return nil, q.Err()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// counted reports whether a job belongs to a member that has ended, as a second copy of a
// job may.
func (q *Batches) counted(s *record.Job) bool {
	if s.Batch == "" {
		return false
	}
	t := q.known(s.Batch)
	return t != nil && t.has(s.Index)
}

// noteEnd counts a job that has ended, if it ends a member of a batch.
func (q *Batches) noteEnd(e *record.End) {
	if e.Batch == "" || e.Next != "" {
		return
	}
	q.of(e.Batch).note(e.Index, record.FateOf(e), e.ID)
}

// loop handles all batches until the queue is closed. Each Queue has one such goroutine;
// it is idle while no batch is open and the store is not shared.
func (q *Batches) loop() {
	stop := q.subscribe()
	defer stop()
	q.again(q.readAll)
	timer := time.NewTimer(0)
	defer timer.Stop()
	armed := true
	for q.Live.Err() == nil {
		select {
		case <-q.Live.Done():
			continue
		case <-q.wake:
			if q.stale.Swap(false) {
				q.readRecords(false) //nolint:errcheck // the next tick reads them too
			}
			q.look()
			q.PauseFor(storePause)
		case <-timer.C:
			armed = false
			q.tick()
		}
		if pause := q.pause(); !armed && pause > 0 {
			armed = true
			timer.Reset(pause)
		}
	}
	q.look() // stores the last counts if that still works
}

// again calls try until it succeeds or the queue is closed.
func (q *Batches) again(try func() error) {
	for wait := jobs.FirstPause; ; wait = min(2*wait, jobs.LastPause) {
		err := try()
		if err == nil || q.Hopeless(err) || !q.PauseFor(wait) {
			return
		}
		q.Journal.Emit(job.Event{Kind: job.NotKept, Text: "cannot read the batches: " + err.Error()})
	}
}

// pause returns how long until the next tick, 0 for none.
func (q *Batches) pause() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.open) > 0:
		return TickPause
	case q.Engine.Shared():
		return idlePause
	default:
		return 0
	}
}

// look reads the records of new rosters and stores what was counted.
func (q *Batches) look() {
	q.mu.Lock()
	pending := q.pending
	q.pending = nil
	q.mu.Unlock()
	for _, t := range pending {
		t.mu.Lock()
		t.pending = false
		read := t.record != nil
		t.mu.Unlock()
		if !read && q.Live.Err() == nil {
			if err := q.read(t); err != nil {
				q.Journal.Emit(job.Event{Kind: job.NotKept, Batch: t.id, Text: "cannot read the batch: " + err.Error()})
				continue // the next tick tries again
			}
		}
		q.store(t)
	}
}

// read reads the record of a batch and the counts of all nodes.
func (q *Batches) read(t *roster) error {
	r, err := q.readBatch(q.Live, t.id)
	if errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrDamaged) {
		if errors.Is(err, job.ErrDamaged) {
			q.Damaged("", t.id, err)
		}
		t.leave()
		return nil
	}
	if err != nil {
		return err
	}
	t.learn(r)
	if r.Final() {
		return nil
	}
	return q.scan("set.bend."+t.id+".>", 1, func(m engine.Message) { q.readBits(m, t) })
}

// readBits merges what one run of a node has counted.
func (q *Batches) readBits(m engine.Message, t *roster) {
	_, number, run, ok := record.ParseBits(m.Subject)
	if !ok || run == q.run {
		return
	}
	c, created, err := record.DecodeChunk(m.Subject, m.Data)
	if err != nil {
		return // a survey finds it from the outcomes
	}
	t.mu.Lock()
	t.stored = true
	t.mu.Unlock()
	t.merge(number, c, created)
}

// scan calls each for all messages on a subject, starting at a sequence number.
func (q *Batches) scan(subject string, from uint64, each func(engine.Message)) error {
	for {
		page, err := q.Engine.Scan(q.Live, engine.State, subject, from, jobs.ScanPage)
		if err != nil {
			return err
		}
		for _, m := range page {
			from = m.Seq + 1
			each(m)
		}
		if len(page) < jobs.ScanPage {
			return nil
		}
	}
}

// readAll reads all unfinished batches at the start, and deletes the counts of others.
// The members of the unfinished ones are surveyed at once.
func (q *Batches) readAll() error {
	if err := q.readRecords(true); err != nil {
		return err
	}
	var left []uint64
	err := q.scan("set.bend.>", 1, func(m engine.Message) {
		id, _, _, ok := record.ParseBits(m.Subject)
		q.lastBits = m.Seq
		switch t := q.known(id); {
		case !ok:
		case t == nil && time.Since(m.Time) > TickPause: // no node is about to count it
			left = append(left, m.Seq)
		case t != nil:
			q.readBits(m, t)
		}
	})
	for _, seq := range left {
		if err == nil {
			err = q.Engine.Delete(q.Live, engine.State, seq)
		}
	}
	return err
}

// readRecords reads the records of batches that were stored since the last call.
func (q *Batches) readRecords(first bool) error {
	return q.scan("set.batch.*", q.lastRecord+1, func(m engine.Message) {
		q.lastRecord = m.Seq
		r, err := record.DecodeBatch(m)
		if err != nil {
			if first {
				q.Damaged("", engine.LastToken(m.Subject), err)
			}
			return
		}
		t := q.known(r.ID)
		if r.Final() || t != nil && !first {
			q.learn(r)
			return
		}
		t = q.of(r.ID)
		if first {
			t.mu.Lock()
			t.lookAt = time.Now()
			t.cancels = t.cancels || !q.Engine.Shared()
			t.mu.Unlock()
		}
		t.learn(r)
		if !first {
			q.scan("set.bend."+t.id+".>", 1, func(m engine.Message) { q.readBits(m, t) }) //nolint:errcheck // it is found out from the outcomes
		}
	})
}
