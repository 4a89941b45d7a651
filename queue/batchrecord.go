package queue

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// batchRecord is a batch as it lies in the store.
type batchRecord struct {
	id, key string
	state   BatchState
	created time.Time
	total   int // of one that is not open
	then    *Job
	failed  *Job
	meta    map[string]string

	begun spans // the members that may have been put
	there spans // those that were put for certain

	ended       time.Time
	count       [fates]int // of one that has ended
	firstFailed string
	owes        bool // it has ended, and its callback may not be enqueued
	failedDone  bool // the callback of the first failure is

	seq uint64 // of its message, not stored in it
}

const (
	batchKey = iota + 1
	batchState
	batchCreated
	batchTotal
	batchThen
	batchFailed
	batchMeta
	batchBegun
	batchThere
	batchEnded
	batchOK
	batchBad
	batchCanceled
	batchLost
	batchFirst
	batchOwes
	batchFailedDone
)

func batchSubject(id string) string { return "set.batch." + id }

func (r *batchRecord) encode() []byte {
	w := newRecord(256)
	w.text(batchKey, r.key)
	w.number(batchState, uint64(r.state))
	w.moment(batchCreated, r.created)
	w.number(batchTotal, uint64(r.total))
	if r.then != nil {
		w.bytes(batchThen, callbackFields(r.then))
	}
	if r.failed != nil {
		w.bytes(batchFailed, callbackFields(r.failed))
	}
	for k, v := range r.meta {
		w.pair(batchMeta, k, v)
	}
	r.begun.write(&w, batchBegun)
	r.there.write(&w, batchThere)
	w.moment(batchEnded, r.ended)
	for f, n := range r.count {
		w.number(batchOK+uint64(f), uint64(n))
	}
	w.text(batchFirst, r.firstFailed)
	w.flag(batchOwes, r.owes)
	w.flag(batchFailedDone, r.failedDone)
	return w.seal(batchSubject(r.id))
}

// callbackFields gives a callback with what follows it.
func callbackFields(j *Job) []byte {
	w := recordWriter{linkFields(j)}
	w.bytes(linkChain, chainFields(place{}, j.Then))
	return w.b
}

func readCallback(b []byte) (*Job, error) {
	j, err := readLink(b)
	if err != nil {
		return nil, err
	}
	var s stored
	err = readFields(b, func(f field) error {
		if f.tag == linkChain {
			return s.readChain(f)
		}
		return nil
	})
	j.Then = s.job.Then
	return &j, err
}

// decodeBatch reads the record of a batch.
func decodeBatch(m engine.Message) (*batchRecord, error) {
	r := &batchRecord{id: engine.LastToken(m.Subject), seq: m.Seq}
	err := readRecord(m.Subject, m.Data, r.read)
	if err == nil && r.total > MostMembers {
		err = fmt.Errorf("%w: it has %d members", errCorrupt, r.total)
	}
	if err != nil {
		return nil, fmt.Errorf("batch %s: %w", r.id, err)
	}
	return r, nil
}

func (r *batchRecord) read(f field) (err error) {
	switch f.tag {
	case batchKey:
		r.key = string(f.v)
	case batchFirst:
		r.firstFailed = string(f.v)
	case batchThen:
		r.then, err = readCallback(f.v)
	case batchFailed:
		r.failed, err = readCallback(f.v)
	case batchBegun:
		err = r.begun.read(f)
	case batchThere:
		err = r.there.read(f)
	case batchMeta:
		err = r.readMeta(f)
	case batchState:
		var v uint64
		if v, err = f.number(); err == nil && v > uint64(BatchCanceled) {
			err = fmt.Errorf("%w: it names a state %d", errCorrupt, v)
		}
		r.state = BatchState(v)
	default:
		if to := r.numberAt(f.tag); to != nil {
			err = f.into(to)
		}
	}
	return err
}

func (r *batchRecord) numberAt(tag uint64) any {
	switch tag {
	case batchCreated:
		return &r.created
	case batchTotal:
		return &r.total
	case batchEnded:
		return &r.ended
	case batchOK, batchBad, batchCanceled, batchLost:
		return &r.count[tag-batchOK]
	case batchOwes:
		return &r.owes
	case batchFailedDone:
		return &r.failedDone
	default:
		return nil
	}
}

func (r *batchRecord) readMeta(f field) error {
	k, v, err := f.pair()
	if err != nil {
		return err
	}
	if r.meta == nil {
		r.meta = make(map[string]string)
	}
	if len(r.meta) >= mostPairs {
		return fmt.Errorf("%w: it has too many keys", errCorrupt)
	}
	r.meta[k] = v
	return nil
}

// final tells whether nothing will be done for the batch any more.
func (r *batchRecord) final() bool { return !r.ended.IsZero() && !r.owes }

// put gives r as it is stored. What is final, or open and left alone, goes by itself.
func (r *batchRecord) put(c *Config) engine.Put {
	p := engine.Put{Stream: engine.State, Subject: batchSubject(r.id), Data: r.encode(), Durable: true}
	switch {
	case r.final():
		p.TTL = max(c.Keep.OutcomeAge, time.Second).Round(time.Second)
	case r.state == BatchOpen:
		p.TTL = max(c.Keep.DeadAge, time.Second).Round(time.Second)
	}
	return p
}

func (r *batchRecord) info() BatchInfo {
	i := BatchInfo{
		ID: r.id, Key: r.key, State: r.state, Total: r.total, Created: r.created, EndedAt: r.ended, FirstFailed: r.firstFailed,
		OK: r.count[fateOK], Failed: r.count[fateFailed], Canceled: r.count[fateCanceled], Lost: r.count[fateLost],
		ThenJob: r.then, FailedJob: r.failed, Meta: r.meta,
	}
	i.Ended = i.OK + i.Failed + i.Canceled + i.Lost
	if r.state == BatchOpen {
		i.Total = r.there.count()
	}
	if r.then != nil && r.final() {
		i.ThenID = r.thenID()
	}
	if r.failed != nil && r.failedDone {
		i.FailedID = r.failedID()
	}
	return i
}

// member returns the id of the first job of member index. Ids of neighbours are
// neighbours, as those of other jobs are: the store finds them faster.
func (r *batchRecord) member(index int) string {
	id, err := ulid.ParseStrict(derivedID(r.created, "member", r.id))
	if err != nil {
		return "" // there is no derived id that is none
	}
	binary.BigEndian.PutUint32(id[len(id)-4:], uint32(index))
	return id.String()
}

func (r *batchRecord) thenID() string   { return derivedID(r.created, "then", r.id) }
func (r *batchRecord) failedID() string { return derivedID(r.created, "failed", r.id) }

// readBatch reads the record of a batch.
func (q *Queue) readBatch(ctx context.Context, id string) (*batchRecord, error) {
	if err := checkID(id); err != nil {
		return nil, noBatch(fmt.Sprintf("no such batch: %q is not an id of a batch", id))
	}
	m, err := q.engine.Get(ctx, engine.State, batchSubject(id))
	if errors.Is(err, engine.ErrNotFound) {
		return nil, noBatch(fmt.Sprintf("no such batch: %s is not there, or ended so long ago that it is no more kept", id))
	}
	if err != nil {
		return nil, storeError(err)
	}
	return decodeBatch(m)
}

// noBatch is an ErrNotFound that is about a batch, and so does not speak of a job.
type noBatch string

func (e noBatch) Error() string { return string(e) }

// Is tells that it is an ErrNotFound.
func (e noBatch) Is(target error) bool { return target == ErrNotFound }

// errUnchanged says that a batch is as it should be.
var errUnchanged = errors.New("nothing to change")

// changeBatch stores what f makes of the record of a batch, whoever else changes it
// at the same time. f may be called again, each time with a new record; when it
// returns errUnchanged nothing is stored, and that is no error.
func (q *Queue) changeBatch(ctx context.Context, id string, f func(*batchRecord) error) (*batchRecord, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, time.Second) {
		r, err := q.readBatch(ctx, id)
		if err != nil {
			return nil, err
		}
		from := r.state
		if err = f(r); err != nil {
			if errors.Is(err, errUnchanged) {
				q.batches.learn(r)
				err = q.settle(ctx)
			}
			return r, err
		}
		if r.state != from {
			var m lifecycle.Machine[BatchState]
			m.Init(&batchStates, from)
			if err := m.Move(from, r.state); err != nil {
				return r, err
			}
		}
		p := r.put(&q.config)
		p.After = r.seq
		seq, err := q.putSeq(ctx, p)
		if err == nil {
			r.seq = seq
			q.batches.learn(r)
			if r.state != from || r.final() {
				q.batches.changed()
			}
			return r, nil
		}
		if !errors.Is(err, engine.ErrConflict) {
			return r, err
		}
		select {
		case <-time.After(time.Duration(random() * float64(wait))):
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}

// putSeq stores p and returns its sequence number.
func (q *Queue) putSeq(ctx context.Context, p engine.Put) (uint64, error) {
	type answer struct {
		seq uint64
		err error
	}
	c := make(chan answer, 1)
	q.engine.Put(p, func(seq uint64, err error) { c <- answer{seq, err} })
	select {
	case a := <-c:
		return a.seq, storeError(a.err)
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrUnconfirmed, context.Cause(ctx))
	}
}
