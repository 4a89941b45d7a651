package record

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// Batch is the stored form of a batch.
type Batch struct {
	ID, Key string
	State   job.BatchState
	Created time.Time
	Total   int // set once the batch is not open
	Then    *job.Job
	Failed  *job.Job
	meta    map[string]string

	Begun Spans // members that may have been put
	There Spans // members that were certainly put

	Ended       time.Time
	Count       [Fates]int // set once the batch has ended
	FirstFailed string
	Owes        bool // the batch has ended, and its callback may not be enqueued
	FailedDone  bool // the callback of the first failure is enqueued

	Seq uint64 // of the message; not stored in the record
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

// BatchSubject returns the subject of a batch's record.
func BatchSubject(id string) string { return "set.batch." + id }

// Encode returns the record of r.
func (r *Batch) Encode() []byte {
	w := newRecord(256)
	w.text(batchKey, r.Key)
	w.number(batchState, uint64(r.State))
	w.moment(batchCreated, r.Created)
	w.number(batchTotal, uint64(r.Total))
	if r.Then != nil {
		w.bytes(batchThen, callbackFields(r.Then))
	}
	if r.Failed != nil {
		w.bytes(batchFailed, callbackFields(r.Failed))
	}
	for k, v := range r.meta {
		w.pair(batchMeta, k, v)
	}
	r.Begun.write(&w, batchBegun)
	r.There.write(&w, batchThere)
	w.moment(batchEnded, r.Ended)
	for f, n := range r.Count {
		w.number(batchOK+uint64(f), uint64(n))
	}
	w.text(batchFirst, r.FirstFailed)
	w.flag(batchOwes, r.Owes)
	w.flag(batchFailedDone, r.FailedDone)
	return w.seal(BatchSubject(r.ID))
}

// callbackFields returns a callback and its chain.
func callbackFields(j *job.Job) []byte {
	w := recordWriter{linkFields(j)}
	w.bytes(linkChain, chainFields(Position{}, j.Then))
	return w.b
}

func readCallback(b []byte) (*job.Job, error) {
	j, err := readLink(b)
	if err != nil {
		return nil, err
	}
	var s Job
	err = readFields(b, func(f field) error {
		if f.tag == linkChain {
			return s.readChain(f)
		}
		return nil
	})
	j.Then = s.Job.Then
	return &j, err
}

// DecodeBatch reads the record of a batch.
func DecodeBatch(m engine.Message) (*Batch, error) {
	r := &Batch{ID: engine.LastToken(m.Subject), Seq: m.Seq}
	err := readRecord(m.Subject, m.Data, r.read)
	if err == nil && r.Total > job.MostMembers {
		err = fmt.Errorf("%w: it has %d members", job.ErrDamaged, r.Total)
	}
	if err != nil {
		return nil, fmt.Errorf("batch %s: %w", r.ID, err)
	}
	return r, nil
}

func (r *Batch) read(f field) (err error) {
	switch f.tag {
	case batchKey:
		r.Key = string(f.v)
	case batchFirst:
		r.FirstFailed = string(f.v)
	case batchThen:
		r.Then, err = readCallback(f.v)
	case batchFailed:
		r.Failed, err = readCallback(f.v)
	case batchBegun:
		err = r.Begun.read(f)
	case batchThere:
		err = r.There.read(f)
	case batchMeta:
		err = r.readMeta(f)
	case batchState:
		var v uint64
		if v, err = f.number(); err == nil && v > uint64(job.BatchCanceled) {
			err = fmt.Errorf("%w: it names a state %d", job.ErrDamaged, v)
		}
		r.State = job.BatchState(v)
	default:
		if to := r.numberAt(f.tag); to != nil {
			err = f.into(to)
		}
	}
	return err
}

func (r *Batch) numberAt(tag uint64) any {
	switch tag {
	case batchCreated:
		return &r.Created
	case batchTotal:
		return &r.Total
	case batchEnded:
		return &r.Ended
	case batchOK, batchBad, batchCanceled, batchLost:
		return &r.Count[tag-batchOK]
	case batchOwes:
		return &r.Owes
	case batchFailedDone:
		return &r.FailedDone
	default:
		return nil
	}
}

func (r *Batch) readMeta(f field) error {
	k, v, err := f.pair()
	if err != nil {
		return err
	}
	if r.meta == nil {
		r.meta = make(map[string]string)
	}
	if len(r.meta) >= MostPairs {
		return fmt.Errorf("%w: it has too many keys", job.ErrDamaged)
	}
	r.meta[k] = v
	return nil
}

// Final reports whether the batch is finished: it has ended and owes no callback.
func (r *Batch) Final() bool { return !r.Ended.IsZero() && !r.Owes }

// Info returns what the record alone says about the batch.
func (r *Batch) Info() job.BatchInfo {
	i := job.BatchInfo{
		ID: r.ID, Key: r.Key, State: r.State, Total: r.Total, Created: r.Created, EndedAt: r.Ended, FirstFailed: r.FirstFailed,
		OK: r.Count[FateOK], Failed: r.Count[FateFailed], Canceled: r.Count[FateCanceled], Lost: r.Count[FateLost],
		ThenJob: r.Then, FailedJob: r.Failed, Meta: r.meta,
	}
	i.Ended = i.OK + i.Failed + i.Canceled + i.Lost
	if r.State == job.BatchOpen {
		i.Total = r.There.Count()
	}
	if r.Then != nil && r.Final() {
		i.ThenID = r.ThenID()
	}
	if r.Failed != nil && r.FailedDone {
		i.FailedID = r.FailedID()
	}
	return i
}

// Member returns the id of the first job of member index. Neighbouring members have
// neighbouring ids, like other jobs: the store finds them faster.
func (r *Batch) Member(index int) string {
	id, err := ulid.ParseStrict(DerivedID(r.Created, "member", r.ID))
	if err != nil {
		return "" // DerivedID always returns a valid id
	}
	binary.BigEndian.PutUint32(id[len(id)-4:], uint32(index))
	return id.String()
}

// ThenID returns the id of the job of the callback Then.
func (r *Batch) ThenID() string { return DerivedID(r.Created, "then", r.ID) }

// FailedID returns the id of the job of the callback Failed.
func (r *Batch) FailedID() string { return DerivedID(r.Created, "failed", r.ID) }

// End returns the number after the last possible member.
func (r *Batch) End() int {
	if r.State == job.BatchOpen {
		return r.Begun.End()
	}
	return r.Total
}

// NewBatch makes the record of a new batch.
func NewBatch(b *job.Batch) *Batch {
	r := &Batch{Key: b.Key, meta: b.Meta, Created: time.Now()}
	if r.ID = ulid.Make().String(); b.Key != "" {
		r.ID = DerivedID(time.Time{}, "batch", b.Key)
	}
	r.Then, r.Failed = callback(b.Then), callback(b.Failed)
	return r
}

// callback returns a callback in its stored form.
func callback(j *job.Job) *job.Job {
	if j == nil {
		return nil
	}
	c := *j
	if c.Queue == "" {
		c.Queue = "default"
	}
	c.Then = Links(c.Then, c.Queue)
	return &c
}
