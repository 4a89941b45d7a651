package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// The keys of Meta that callbacks of batches have.
const (
	metaTotal  = "bullpen.total"
	metaOK     = "bullpen.ok"
	metaFailed = "bullpen.failed"
)

// tellFailure enqueues the callback of the first failure, then records that it is.
func tellFailure(ctx context.Context, t *roster) error {
	q := t.batches.queue
	first, err := t.firstFailure(ctx)
	if err != nil {
		return err
	}
	r, err := q.readBatch(ctx, t.id)
	if err != nil || r.failedDone {
		return t.learned(r, err)
	}
	i, _ := t.info()
	if i.FirstFailed = r.firstFailed; i.FirstFailed == "" {
		i.FirstFailed = first
	}
	if err := q.callBack(ctx, r.failedID(), r.failed, &i); err != nil {
		return err
	}
	_, err = q.changeBatch(ctx, t.id, func(r *batchRecord) error {
		if r.failedDone {
			return errUnchanged
		}
		if r.failedDone = true; r.firstFailed == "" {
			r.firstFailed = i.FirstFailed
		}
		return nil
	})
	if err == nil {
		q.journal.emit(Event{Kind: BatchFailed, Batch: t.id, Job: i.FirstFailed})
	}
	return err
}

// learned takes in a record that was read for a step. One that is gone ends it all.
func (t *roster) learned(r *batchRecord, err error) error {
	switch {
	case errors.Is(err, ErrNotFound):
		t.leave()
		return nil
	case err == nil:
		t.learn(r)
	}
	return err
}

// firstFailure returns the id of the job that failed first, as far as is known.
func (t *roster) firstFailure(ctx context.Context) (string, error) {
	t.mu.Lock()
	first, index := t.first, -1
	if first == "" && t.count[fateFailed] > 0 {
		index = t.firstOf(fateFailed)
	}
	r := t.record
	t.mu.Unlock()
	if first != "" || index < 0 {
		return first, nil
	}
	// Another run has counted it. Its last job has failed, of one that was a chain.
	id := r.member(index)
	for e, err := t.batches.queue.outcome(ctx, id); ; e, err = t.batches.queue.outcome(ctx, id) {
		switch {
		case err == nil && e.next != "":
			id = e.next
		case err == nil, errors.Is(err, engine.ErrNotFound), errors.Is(err, ErrDamaged):
			return id, nil
		default:
			return "", err
		}
	}
}

// firstOf returns the first member with a fate, -1 for none. It is called with mu
// held.
func (t *roster) firstOf(f fate) int {
	for i := range t.record.end() {
		if c := t.chunks[i/chunkMembers]; c != nil {
			if g, ended := c.fate(i % chunkMembers); ended && g == f {
				return i
			}
		}
	}
	return -1
}

// recordEnd records that all members have ended, with the counts, which do not
// change any more from then on.
func recordEnd(ctx context.Context, t *roster) error {
	q := t.batches.queue
	first, err := t.firstFailure(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	count := t.count
	t.mu.Unlock()
	done := false
	r, err := q.changeBatch(ctx, t.id, func(r *batchRecord) error {
		if done = r.ended.IsZero(); !done {
			return errUnchanged
		}
		if r.state == BatchRunning {
			r.state = BatchDone
		}
		r.ended, r.count, r.owes = time.Now(), count, r.then != nil
		if r.firstFailed == "" {
			r.firstFailed = first
		}
		return nil
	})
	if err == nil && done {
		q.count.batchesEnded.Add(1)
		i := r.info()
		q.journal.emit(Event{Kind: BatchEnded, Batch: t.id, Count: i.Total, Text: i.counts()})
	}
	if errors.Is(err, ErrNotFound) {
		return t.learned(nil, err)
	}
	return err
}

// counts says how the members ended, for people.
func (i *BatchInfo) counts() string {
	s := fmt.Sprintf("%d of %d ended: %d ok, %d failed", i.Ended, i.Total, i.OK, i.Failed)
	if i.Canceled > 0 {
		s += fmt.Sprintf(", %d canceled", i.Canceled)
	}
	if i.Lost > 0 {
		s += fmt.Sprintf(", %d lost", i.Lost)
	}
	return s
}

// conclude enqueues the callback of a batch that has ended, then records that it
// is: after that nothing is owed.
func conclude(ctx context.Context, t *roster) error {
	q := t.batches.queue
	r, err := q.readBatch(ctx, t.id)
	if err != nil || !r.owes {
		return t.learned(r, err)
	}
	i := r.info()
	if err := q.callBack(ctx, r.thenID(), r.then, &i); err != nil {
		return err
	}
	_, err = q.changeBatch(ctx, t.id, func(r *batchRecord) error {
		if !r.owes {
			return errUnchanged
		}
		r.owes = false
		return nil
	})
	return err
}

// leave forgets a batch that nothing is owed to any more, and removes what was
// counted of it.
func leave(ctx context.Context, t *roster) error {
	t.mu.Lock()
	stored := t.stored
	t.mu.Unlock()
	if stored {
		if err := t.batches.clear(ctx, t.id); err != nil {
			return err
		}
	}
	t.leave()
	return nil
}

func (t *roster) leave() {
	t.batches.forget(t)
	t.isReady()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.left {
		t.left = true
		close(t.gone)
	}
}

// clear removes all that runs of nodes have counted of a batch.
func (b *batches) clear(ctx context.Context, id string) error {
	for from := uint64(1); ; {
		page, err := b.queue.engine.Scan(ctx, engine.State, "set.bend."+id+".>", from, scanPage)
		if err != nil {
			return err
		}
		for _, m := range page {
			from = m.Seq + 1
			if err := b.queue.engine.Delete(ctx, engine.State, m.Seq); err != nil {
				return err
			}
		}
		if len(page) < scanPage {
			return nil
		}
	}
}

// callBack enqueues a callback of a batch, once.
func (q *Queue) callBack(ctx context.Context, id string, j *Job, i *BatchInfo) error {
	now := time.Now()
	s := &stored{id: id, job: *j, enqueued: now}
	if len(j.Then) > 0 {
		s.chain = place{first: id, number: 1, of: 1 + len(j.Then)}
	}
	s.job.Meta = make(map[string]string, len(j.Meta)+4)
	maps.Copy(s.job.Meta, j.Meta)
	maps.Copy(s.job.Meta, map[string]string{
		metaBatch: i.ID, metaTotal: strconv.Itoa(i.Total), metaOK: strconv.Itoa(i.OK), metaFailed: strconv.Itoa(i.Failed),
	})
	if len(j.Payload) == 0 {
		b, err := json.Marshal(i.report())
		if err != nil {
			return fmt.Errorf("the payload of a callback: %w", err)
		}
		s.job.Payload = b
	}
	// A delay counts from a moment that is the same for all who try.
	from := i.EndedAt
	if from.IsZero() {
		from = now
	}
	if s.job.Delay > 0 {
		s.job.At, s.job.Delay = from.Add(s.job.Delay), 0
	}
	if !s.job.At.After(now) {
		s.job.At = time.Time{}
	}
	_, err := q.enqueueDerived(ctx, s)
	if err == nil {
		q.count.callbacks.Add(1)
	}
	return err
}

// report is the payload of a callback that has none of its own.
func (i *BatchInfo) report() any {
	return struct {
		Batch       string `json:"batch"`
		Total       int    `json:"total"`
		OK          int    `json:"ok"`
		Failed      int    `json:"failed"`
		Canceled    int    `json:"canceled"`
		Lost        int    `json:"lost"`
		FirstFailed string `json:"first_failed,omitempty"`
	}{i.ID, i.Total, i.OK, i.Failed, i.Canceled, i.Lost, i.FirstFailed}
}
