package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// MostMembers is how many jobs a batch has at most.
const MostMembers = 1_000_000

// Batch is a set of jobs that are counted together. The zero value counts and does
// nothing else.
type Batch struct {
	// Key makes it the one batch of this name: opening it again gives back the first,
	// as long as its record is kept (Config.Keep.OutcomeAge after its end). Empty is
	// no key.
	Key string
	// Then is enqueued once, when all members have ended, however they did. Failed is
	// enqueued once, when the first has failed for good; a member that was canceled
	// has not failed. Both are jobs like any other, without a Key. Where the payload
	// is empty they get a JSON object with batch, total, ok, failed, canceled, lost
	// and first_failed; in Meta they have the first four as bullpen.batch,
	// bullpen.total, bullpen.ok and bullpen.failed.
	Then, Failed *Job
	// Meta is kept with the batch.
	Meta map[string]string
}

// BatchState is where a batch is.
type BatchState uint8

// The states of a batch.
const (
	// BatchOpen: more members may be added.
	BatchOpen BatchState = iota
	// BatchRunning: it is sealed, and not all members have ended.
	BatchRunning
	// BatchDone: all have ended.
	BatchDone
	// BatchCanceled: it was canceled. It has ended when EndedAt says so.
	BatchCanceled
)

// batchStates is the table of a batch's life. Each move is one conditioned message.
var batchStates = lifecycle.Table[BatchState]{
	Name:   "batch",
	States: map[BatchState]string{BatchOpen: "open", BatchRunning: "running", BatchDone: "done", BatchCanceled: "canceled"},
	Moves: map[BatchState][]BatchState{
		BatchOpen:    {BatchRunning, BatchCanceled},
		BatchRunning: {BatchDone, BatchCanceled},
		BatchDone:    nil, BatchCanceled: nil,
	},
}

// String returns the word for s.
func (s BatchState) String() string { return batchStates.Word(s) }

// ParseBatchState returns the state that word names.
func ParseBatchState(word string) (BatchState, error) {
	for s, name := range batchStates.States {
		if name == word {
			return s, nil
		}
	}
	return 0, fmt.Errorf("unknown state %q: use open, running, done or canceled", word)
}

// BatchInfo is what there is to know of a batch.
type BatchInfo struct {
	ID, Key string
	State   BatchState
	// Existing says that the batch was there before, of what OpenBatch and
	// EnqueueBatch return.
	Existing bool
	// Total is how many members it has; of one that is open, how many are there.
	// Ended of them have ended: OK, Failed for good, Canceled, or Lost: they are no
	// more in the queue, and neither is how they ended.
	Total, Ended, OK, Failed, Canceled, Lost int
	Created                                  time.Time
	// EndedAt is when the end of the last member was counted; zero before.
	EndedAt time.Time
	// FirstFailed is the id of the job that failed first, as far as the node knows
	// that was asked.
	FirstFailed string
	// ThenJob and FailedJob are the callbacks, ThenID and FailedID the ids of their
	// jobs once they are enqueued.
	ThenJob, FailedJob *Job
	ThenID, FailedID   string
	Meta               map[string]string
}

// HasEnded tells whether all members have ended and the callbacks are enqueued.
func (i *BatchInfo) HasEnded() bool { return i.settled() }

func (i *BatchInfo) settled() bool {
	return !i.EndedAt.IsZero() && (i.ThenJob == nil || i.ThenID != "")
}

// check reports every fault of b at once.
func (b *Batch) check(c *Config) error {
	var errs []error
	if len(b.Key) > longestKey {
		errs = append(errs, fmt.Errorf("Key has %d bytes: use %d at most, for example a hash of it", len(b.Key), longestKey))
	}
	errs = append(errs, (&Job{Meta: b.Meta}).checkMeta())
	size := 0
	for name, j := range map[string]*Job{"Then": b.Then, "Failed": b.Failed} {
		if j == nil {
			continue
		}
		if err := j.check(c); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		if j.Key != "" {
			errs = append(errs, fmt.Errorf("%s has a key: leave it out, it is enqueued once by itself", name))
		}
		size += len(j.Payload) + linksSize(j.Then)
	}
	if size > c.MaxPayload {
		errs = append(errs, fmt.Errorf("the payloads of Then and Failed, with what follows them, have %d bytes: use %d at most together (Config.MaxPayload)", size, c.MaxPayload))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the batch is not valid: %w", err)
	}
	return nil
}

// checkBatch reports the faults of a batch, and callbacks that cannot run. What the
// payload of one will be is not known yet.
func (q *Queue) checkBatch(b *Batch) error {
	if err := b.check(&q.config); err != nil {
		return err
	}
	for _, j := range []*Job{b.Then, b.Failed} {
		if j == nil {
			continue
		}
		if err := q.admit(j, ""); err != nil {
			return fmt.Errorf("the batch cannot have this callback: %w", err)
		}
	}
	return nil
}

// record makes the record of a new batch.
func (b *Batch) record() *batchRecord {
	r := &batchRecord{key: b.Key, meta: b.Meta, created: time.Now()}
	if r.id = ulid.Make().String(); b.Key != "" {
		r.id = derivedID(time.Time{}, "batch", b.Key)
	}
	r.then, r.failed = callback(b.Then), callback(b.Failed)
	return r
}

// callback gives a callback as it is stored.
func callback(j *Job) *Job {
	if j == nil {
		return nil
	}
	c := *j
	if c.Queue == "" {
		c.Queue = "default"
	}
	c.Then = links(c.Then, c.Queue)
	return &c
}

// OpenBatch makes a batch to which members are added by AddToBatch, until SealBatch
// says that these are all. Where its Key names one that is there, that is returned
// with Existing. One that stays open is forgotten Config.Keep.DeadAge after the last
// addition; its members run like any jobs. It costs one message.
func (q *Queue) OpenBatch(ctx context.Context, b Batch) (BatchInfo, error) {
	if err := q.checkBatch(&b); err != nil {
		return BatchInfo{}, err
	}
	r, existing, err := q.openBatch(ctx, b.record())
	if err != nil {
		return BatchInfo{}, err
	}
	return q.batchInfo(ctx, r, existing)
}

func (q *Queue) openBatch(ctx context.Context, r *batchRecord) (_ *batchRecord, existing bool, err error) {
	for range keyTries {
		p := r.put(&q.config)
		p.New = true
		seq, err := q.putSeq(ctx, p)
		if err == nil {
			q.count.batches.Add(1)
			r.seq = seq
			q.batches.made(r)
			return r, false, nil
		}
		if !errors.Is(err, engine.ErrConflict) {
			return nil, false, fmt.Errorf("the batch was not opened: %w", err)
		}
		there, err := q.readBatch(ctx, r.id)
		if err == nil {
			err = q.settle(ctx)
		}
		if !errors.Is(err, ErrNotFound) {
			return there, true, err
		}
	}
	return nil, false, errors.New("the batch was not opened: its record comes and goes: try again")
}

// EnqueueBatch opens a batch with the given members, enqueues them and seals it. When
// it returns nil all survive a loss of power, and the callbacks will be enqueued.
// After an error the batch is open still: call EnqueueBatch again with the same Key
// and members, or AddToBatch and SealBatch with the id that is returned. Without a
// Key a batch whose call was cut off stays open.
//
// Beside the jobs it costs two messages. While the batch is not done a node holds
// about 1 kB for it, and one to three bits for each member.
func (q *Queue) EnqueueBatch(ctx context.Context, b Batch, jobs []Job) (BatchInfo, error) {
	if err := q.checkBatch(&b); err != nil {
		return BatchInfo{}, err
	}
	members, err := q.prepareMembers(0, jobs)
	if err != nil {
		return BatchInfo{}, err
	}
	r := b.record()
	r.begun.add(0, len(jobs))
	r, existing, err := q.openBatch(ctx, r)
	if err != nil {
		return BatchInfo{}, err
	}
	var again spans
	if existing {
		if r.state != BatchOpen {
			return q.batchInfo(ctx, r, true)
		}
		r, again, err = q.beginMembers(ctx, r.id, 0, len(jobs))
		if errors.Is(err, ErrEnded) {
			return q.batchInfo(ctx, r, true) // another caller was faster
		}
		if err != nil {
			return BatchInfo{}, err
		}
	}
	refs, err := q.putMembers(ctx, r, 0, members, again)
	if err != nil {
		_, lost := q.membersThere(ctx, r.id, 0, refs)
		return BatchInfo{ID: r.id, Key: r.key, Created: r.created, Existing: existing},
			errors.Join(fmt.Errorf("batch %s is still open: %w", r.id, err), lost)
	}
	sealed, err := q.seal(ctx, r.id, len(jobs), func(r *batchRecord) { r.there.add(0, len(jobs)) })
	if err != nil {
		return BatchInfo{ID: r.id, Key: r.key, Created: r.created, Existing: existing}, fmt.Errorf("batch %s may still be open: %w", r.id, err)
	}
	return q.batchInfo(ctx, sealed, existing)
}

// batchInfo tells what a record says, and of a batch that has not ended what is
// counted by now.
func (q *Queue) batchInfo(ctx context.Context, r *batchRecord, existing bool) (BatchInfo, error) {
	if !r.final() {
		t, err := q.batches.ready(ctx, r.id)
		if err != nil {
			return BatchInfo{}, err
		}
		if now, ok := t.info(); ok && (r.ended.IsZero() || !now.EndedAt.IsZero()) {
			now.Existing = existing
			return now, nil
		}
	}
	i := r.info()
	i.Existing = existing
	return i, nil
}

// GetBatch returns what there is to know of a batch, as long as its record is kept:
// Config.Keep.OutcomeAge after its end. Otherwise the error is ErrNotFound. On a
// store that several nodes share, what others have counted in the last tenth of a
// second may be missing. It costs one read.
func (q *Queue) GetBatch(ctx context.Context, id string) (BatchInfo, error) {
	r, err := q.readBatch(ctx, id)
	if err != nil {
		return BatchInfo{}, err
	}
	return q.batchInfo(ctx, r, false)
}

// WaitBatch waits until all members have ended and the callbacks are enqueued, from
// whatever node it is called. The error is ErrNotFound when there is no such batch;
// when ctx ends first the batch goes on, and the error wraps the cause of ctx.
func (q *Queue) WaitBatch(ctx context.Context, id string) (BatchInfo, error) {
	for {
		r, err := q.readBatch(ctx, id)
		again := askAgain // another node may have ended it
		var gone chan struct{}
		switch {
		case ctx.Err() != nil:
			return BatchInfo{}, fmt.Errorf("gave up waiting for batch %s, which goes on: %w", id, context.Cause(ctx))
		case err == nil && r.final():
			return r.info(), nil
		case err == nil:
			gone = q.batches.of(id).gone
		case errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) || q.hopeless(err):
			return BatchInfo{}, err
		default:
			again = askSoon // the store is away for a moment
		}
		select {
		case <-gone:
		case <-time.After(again):
		case <-q.live.Done():
			return BatchInfo{}, ErrClosed
		case <-ctx.Done():
		}
	}
}

// BatchFilter selects batches for [Queue.ListBatches].
type BatchFilter struct {
	// States are those to list; nil is all.
	States []BatchState
	// Newest lists those that changed last first.
	Newest bool
	// Limit is the most batches; default 100. After goes on behind the last call's
	// BatchPage.Next.
	Limit int
	After uint64
}

// BatchPage is a part of a list of batches.
type BatchPage struct {
	Batches []BatchInfo
	// Next is for BatchFilter.After; 0 says that this was the last page.
	Next uint64
}

func (f *BatchFilter) selects(s BatchState) bool {
	return len(f.States) == 0 || slices.Contains(f.States, s)
}
