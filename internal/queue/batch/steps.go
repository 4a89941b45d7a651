package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// fireFailed enqueues the callback of the first failure, then records that.
func fireFailed(ctx context.Context, t *roster) error {
	q := t.batches
	first, err := t.firstFailure(ctx)
	if err != nil {
		return err
	}
	r, err := q.readBatch(ctx, t.id)
	if err != nil || r.FailedDone {
		return t.learned(r, err)
	}
	i, _ := t.info()
	if i.FirstFailed = r.FirstFailed; i.FirstFailed == "" {
		i.FirstFailed = first
	}
	if err := q.callBack(ctx, r.FailedID(), r.Failed, &i); err != nil {
		return err
	}
	_, err = q.changeBatch(ctx, t.id, func(r *record.Batch) error {
		if r.FailedDone {
			return errUnchanged
		}
		if r.FailedDone = true; r.FirstFailed == "" {
			r.FirstFailed = i.FirstFailed
		}
		return nil
	})
	if err == nil {
		q.Journal.Emit(job.Event{Kind: job.BatchFailed, Batch: t.id, Job: i.FirstFailed})
	}
	return err
}

// learned applies a record that a step has read. If the record is gone, the batch is
// left.
func (t *roster) learned(r *record.Batch, err error) error {
	switch {
	case errors.Is(err, job.ErrNotFound):
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
	if first == "" && t.count[record.FateFailed] > 0 {
		index = t.firstOf(record.FateFailed)
	}
	r := t.record
	t.mu.Unlock()
	if first != "" || index < 0 {
		return first, nil
	}
	// Another run has counted the member. If it is a chain, the last job has failed.
	id := r.Member(index)
	for e, err := t.batches.Outcome(ctx, id); ; e, err = t.batches.Outcome(ctx, id) {
		switch {
		case err == nil && e.Next != "":
			id = e.Next
		case err == nil, errors.Is(err, engine.ErrNotFound), errors.Is(err, job.ErrDamaged):
			return id, nil
		default:
			return "", err
		}
	}
}

// firstOf returns the first member with a fate, -1 for none. mu is held.
func (t *roster) firstOf(f record.Fate) int {
	for i := range t.record.End() {
		if c := t.chunks[i/record.ChunkMembers]; c != nil {
			if g, ended := c.Fate(i % record.ChunkMembers); ended && g == f {
				return i
			}
		}
	}
	return -1
}

// recordEnd records that all members have ended, with the counts, which are final from
// then on.
func recordEnd(ctx context.Context, t *roster) error {
	q := t.batches
	first, err := t.firstFailure(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	count := t.count
	t.mu.Unlock()
	done := false
	r, err := q.changeBatch(ctx, t.id, func(r *record.Batch) error {
		if done = r.Ended.IsZero(); !done {
			return errUnchanged
		}
		if r.State == job.BatchRunning {
			r.State = job.BatchDone
		}
		r.Ended, r.Count, r.Owes = time.Now(), count, r.Then != nil
		if r.FirstFailed == "" {
			r.FirstFailed = first
		}
		return nil
	})
	if err == nil && done {
		q.Counters.Ended.Add(1)
		i := r.Info()
		q.Journal.Emit(job.Event{Kind: job.BatchEnded, Batch: t.id, Count: i.Total, Text: counts(&i)})
	}
	if errors.Is(err, job.ErrNotFound) {
		return t.learned(nil, err)
	}
	return err
}

// counts describes how the members ended, for people.
func counts(i *job.BatchInfo) string {
	s := fmt.Sprintf("%d of %d ended: %d ok, %d failed", i.Ended, i.Total, i.OK, i.Failed)
	if i.Canceled > 0 {
		s += fmt.Sprintf(", %d canceled", i.Canceled)
	}
	if i.Lost > 0 {
		s += fmt.Sprintf(", %d lost", i.Lost)
	}
	return s
}

// conclude enqueues the callback of a batch that has ended, then records that. After it
// the batch owes nothing.
func conclude(ctx context.Context, t *roster) error {
	q := t.batches
	r, err := q.readBatch(ctx, t.id)
	if err != nil || !r.Owes {
		return t.learned(r, err)
	}
	i := r.Info()
	if err := q.callBack(ctx, r.ThenID(), r.Then, &i); err != nil {
		return err
	}
	_, err = q.changeBatch(ctx, t.id, func(r *record.Batch) error {
		if !r.Owes {
			return errUnchanged
		}
		r.Owes = false
		return nil
	})
	return err
}

// leave forgets a batch that owes nothing, and removes its counts from the store.
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

// clear removes what all runs of nodes have counted of a batch.
func (q *Batches) clear(ctx context.Context, id string) error {
	for from := uint64(1); ; {
		page, err := q.Engine.Scan(ctx, engine.State, "set.bend."+id+".>", from, jobs.ScanPage)
		if err != nil {
			return err
		}
		for _, m := range page {
			from = m.Seq + 1
			if err := q.Engine.Delete(ctx, engine.State, m.Seq); err != nil {
				return err
			}
		}
		if len(page) < jobs.ScanPage {
			return nil
		}
	}
}

// callBack enqueues a callback of a batch, once.
func (q *Batches) callBack(ctx context.Context, id string, j *job.Job, i *job.BatchInfo) error {
	now := time.Now()
	s := &record.Job{ID: id, Job: *j, Enqueued: now}
	if len(j.Then) > 0 {
		s.Chain = record.Position{First: id, Number: 1, Of: 1 + len(j.Then)}
	}
	s.Job.Meta = make(map[string]string, len(j.Meta)+4)
	maps.Copy(s.Job.Meta, j.Meta)
	maps.Copy(s.Job.Meta, map[string]string{
		record.MetaBatch: i.ID, record.MetaTotal: strconv.Itoa(i.Total), record.MetaOK: strconv.Itoa(i.OK), record.MetaFailed: strconv.Itoa(i.Failed),
	})
	if len(j.Payload) == 0 {
		b, err := json.Marshal(report(i))
		if err != nil {
			return fmt.Errorf("the payload of a callback: %w", err)
		}
		s.Job.Payload = b
	}
	// Every caller computes the same start time from the record.
	from := i.EndedAt
	if from.IsZero() {
		from = now
	}
	if s.Job.Delay > 0 {
		s.Job.At, s.Job.Delay = from.Add(s.Job.Delay), 0
	}
	if !s.Job.At.After(now) {
		s.Job.At = time.Time{}
	}
	_, err := q.EnqueueDerived(ctx, s)
	if err == nil {
		q.Counters.Callbacks.Add(1)
	}
	return err
}

// report is the payload of a callback that has no payload.
func report(i *job.BatchInfo) any {
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
