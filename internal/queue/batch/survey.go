package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// tick reads what other nodes have stored, and surveys batches without progress.
func (q *Batches) tick() {
	if q.Engine.Shared() {
		err := q.readRecords(false)
		if err == nil {
			err = q.scan("set.bend.>", q.lastBits+1, func(m engine.Message) {
				q.lastBits = m.Seq
				if id, _, _, ok := record.ParseBits(m.Subject); ok {
					if t := q.known(id); t != nil {
						q.readBits(m, t)
					}
				}
			})
		}
		if err != nil && !q.Hopeless(err) {
			q.Journal.Emit(job.Event{Kind: job.NotKept, Text: "cannot read the batch counts of other nodes: " + err.Error()})
		}
	}
	now := time.Now()
	for _, t := range q.all() {
		t.mu.Lock()
		if t.record == nil || len(t.changed) > 0 {
			t.handleSoon()
		}
		if t.progress {
			t.progress, t.quiet, t.lookAt = false, firstQuiet, now.Add(firstQuiet)
		}
		look := t.record != nil && !t.surveys && !now.Before(t.lookAt) && t.ended() < t.record.End()
		if look && t.record.State == job.BatchCanceled {
			look, t.cancels, t.lookAt = false, true, now.Add(t.quiet)
		}
		if t.surveys = t.surveys || look; look {
			t.quiet = min(2*t.quiet, lastQuiet)
		}
		t.mu.Unlock()
		t.advance()
		if look {
			q.Spawn(t.survey) // ends after one survey, at the latest with Live
		}
	}
}

// fewMembers is the largest number of members that are looked up one by one. For more,
// the queue is read once to find those that are in it.
const fewMembers = 256

// lookers is how many members are looked up concurrently.
const lookers = 16

// survey finds the members whose end was not counted: those whose node died before it
// stored its count, and damaged ones. A member still in the queue has not ended; the
// others have an outcome.
func (t *roster) survey() {
	q := t.batches
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.surveys, t.lookAt = false, time.Now().Add(t.quiet)
	}()
	missing := t.missing()
	if len(missing) > fewMembers {
		present, err := t.inQueue(q.Live)
		if err != nil {
			t.notSurveyed(err)
			return
		}
		n := 0
		for _, i := range missing {
			if !present.Has(i) {
				missing[n] = i
				n++
			}
		}
		missing = missing[:n]
	}
	var mu sync.Mutex
	var found []foundMember
	err := t.each(q.Live, missing, func(ctx context.Context, i int) error {
		m, err := q.findMember(ctx, t, i)
		if err != nil || !m.ended {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		found = append(found, m)
		return nil
	})
	if err == nil && len(found) > 0 {
		err = q.Settle(q.Live)
	}
	if err != nil {
		t.notSurveyed(err)
		return
	}
	lost := 0
	for _, m := range found {
		if m.fate == record.FateLost {
			lost++
		}
		t.note(m.index, m.fate, m.id)
	}
	if lost > 0 {
		q.Counters.Missing.Add(uint64(lost))
		q.Journal.Emit(job.Event{Kind: job.Missing, Batch: t.id, Count: lost, Text: "members are not in the queue and have no known outcome: they count as lost"})
	}
}

func (t *roster) notSurveyed(err error) {
	if q := t.batches; !q.Hopeless(err) {
		q.Journal.Emit(job.Event{Kind: job.NotKept, Batch: t.id, Text: "cannot look for its members: " + err.Error()})
	}
}

// each calls f for members, several concurrently, until one call returns an error.
func (t *roster) each(ctx context.Context, members []int, f func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var all sync.WaitGroup
	for range min(lookers, len(members)) {
		all.Go(func() { // ends when next is closed, which each waits for
			for i := range next {
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, i := range members {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	all.Wait()
	return context.Cause(ctx)
}

// inQueue reads all jobs and returns the members among them.
func (t *roster) inQueue(ctx context.Context) (present record.WordSet, err error) {
	q := t.batches
	for _, subject := range []string{"at.*", "job.*.*.*"} {
		for from := uint64(1); ; {
			page, err := q.Engine.Scan(ctx, engine.Jobs, subject, from, jobs.ScanPage)
			if err != nil {
				return nil, err
			}
			for _, m := range page {
				from = m.Seq + 1
				_, id, _ := record.ParseSubject(m)
				if s, err := record.DecodeJob(id, m.Data); err == nil && s.Batch == t.id && s.Index < job.MostMembers {
					present.Set(s.Index)
				}
			}
			if len(page) < jobs.ScanPage {
				break
			}
		}
	}
	return present, nil
}

// foundMember is the result of findMember.
type foundMember struct {
	index int
	ended bool
	fate  record.Fate
	id    string // of its last job
}

// findMember looks up a member of the batch.
func (q *Batches) findMember(ctx context.Context, t *roster, index int) (foundMember, error) {
	t.mu.Lock()
	r := t.record
	t.mu.Unlock()
	m := foundMember{index: index, id: r.Member(index)}
	for {
		info, err := q.Get(ctx, m.id)
		switch {
		case errors.Is(err, job.ErrNotFound):
			return q.findGone(ctx, r, m)
		case errors.Is(err, job.ErrDamaged):
			return q.findDamaged(ctx, m)
		case err != nil:
			return m, err
		case !info.State.Ended():
			return m, nil
		case info.Next == "":
			m.ended, m.fate = true, record.FateOf(&record.End{Outcome: info.Outcome, Reason: info.Reason})
			return m, nil
		}
		if left, err := q.LeftQueue(ctx, m.id); err != nil || !left {
			return m, err // the next job may not be stored yet
		}
		m.id = info.Next
	}
}

// findGone handles a member that has neither a job nor an outcome.
func (q *Batches) findGone(ctx context.Context, r *record.Batch, m foundMember) (foundMember, error) {
	_, err := q.Engine.Get(ctx, engine.Dead, "dead.*."+m.id)
	switch {
	case err == nil:
		m.ended, m.fate = true, record.FateFailed
		return m, nil
	case !errors.Is(err, engine.ErrNotFound):
		return m, err
	}
	// A member of an open batch may be about to be put, so it is not lost. A member that
	// was never put is canceled with its batch.
	m.ended, m.fate = r.State != job.BatchOpen, record.FateLost
	if len(r.Begun) > 0 && !r.There.Has(m.index) {
		m.fate = record.FateCanceled
	}
	return m, nil
}

// findDamaged handles a member whose record is damaged. If its job is in the queue, it is
// buried when its turn comes; otherwise the member has ended.
func (q *Batches) findDamaged(ctx context.Context, m foundMember) (foundMember, error) {
	left, err := q.LeftQueue(ctx, m.id)
	if err == nil && left {
		m.ended, m.fate = true, record.FateLost
	}
	return m, err
}

// CancelBatch implements queue.Queue.CancelBatch.
func (q *Batches) CancelBatch(ctx context.Context, id string) (job.BatchInfo, error) {
	t, err := q.ready(ctx, id)
	if err != nil {
		return job.BatchInfo{}, err
	}
	r, err := q.changeBatch(ctx, id, func(r *record.Batch) error {
		switch {
		case !r.Ended.IsZero():
			return fmt.Errorf("%w: batch %s is %v", job.ErrEnded, id, r.State)
		case r.State == job.BatchCanceled:
			return errUnchanged
		case r.State == job.BatchOpen:
			r.Total = r.Begun.End()
		}
		r.State = job.BatchCanceled
		return nil
	})
	if err != nil {
		return job.BatchInfo{}, err
	}
	q.Journal.Emit(job.Event{Kind: job.BatchTookBack, Batch: id})
	t.mu.Lock()
	t.cancels = true
	t.mu.Unlock()
	t.advance()
	return q.batchInfo(ctx, r, false)
}

// cancelMembers cancels the members of a batch that have not ended.
func cancelMembers(ctx context.Context, t *roster) error {
	q := t.batches
	err := t.each(ctx, t.missing(), func(ctx context.Context, i int) error { return q.cancelMember(ctx, t, i) })
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancels, t.lookAt = false, time.Now().Add(t.quiet)
	return nil
}

// cancelMember cancels one member, and counts it if no other call does.
func (q *Batches) cancelMember(ctx context.Context, t *roster, index int) error {
	t.mu.Lock()
	r := t.record
	t.mu.Unlock()
	err := q.CancelChain(ctx, r.Member(index))
	switch {
	case err == nil, errors.Is(err, job.ErrDamaged):
		return nil // it was counted; a damaged one is buried when its turn comes
	case !errors.Is(err, job.ErrEnded) && !errors.Is(err, job.ErrNotFound):
		return err
	}
	m, err := q.findMember(ctx, t, index)
	if err != nil || !m.ended {
		return err
	}
	if err := q.Settle(ctx); err != nil {
		return err
	}
	t.note(index, m.fate, m.id)
	return nil
}
