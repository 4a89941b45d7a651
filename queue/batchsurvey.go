package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// tick reads what other nodes have stored, and looks for members of batches that
// make no progress.
func (b *batches) tick() {
	q := b.queue
	if q.engine.Shared() {
		err := b.readRecords(false)
		if err == nil {
			err = b.scan("set.bend.>", b.lastBits+1, func(m engine.Message) {
				b.lastBits = m.Seq
				if id, _, _, ok := parseBits(m.Subject); ok {
					if t := b.known(id); t != nil {
						b.readBits(m, t)
					}
				}
			})
		}
		if err != nil && !q.hopeless(err) {
			q.journal.emit(Event{Kind: NotKept, Text: "what other nodes count of batches could not be read: " + err.Error()})
		}
	}
	now := time.Now()
	for _, t := range b.all() {
		t.mu.Lock()
		if t.record == nil || len(t.changed) > 0 {
			t.tell()
		}
		if t.progress {
			t.progress, t.quiet, t.lookAt = false, firstQuiet, now.Add(firstQuiet)
		}
		look := t.record != nil && !t.surveys && !now.Before(t.lookAt) && t.ended() < t.record.end()
		if look && t.record.state == BatchCanceled {
			look, t.cancels, t.lookAt = false, true, now.Add(t.quiet)
		}
		if t.surveys = t.surveys || look; look {
			t.quiet = min(2*t.quiet, lastQuiet)
		}
		t.mu.Unlock()
		t.advance()
		if look {
			q.spawn(t.survey) // ends when it has looked, at the latest with live
		}
	}
}

// fewMembers is how many members are looked for one by one. Of more, those that are
// in the queue are found by reading that once.
const fewMembers = 256

// lookers is how many members are looked for at the same time.
const lookers = 16

// survey finds out which members have ended without anybody counting it: those whose
// node died before it had stored its count, and those that were damaged. In the
// queue there are those that have not ended; of the others there is an outcome.
func (t *roster) survey() {
	q := t.batches.queue
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.surveys, t.lookAt = false, time.Now().Add(t.quiet)
	}()
	missing := t.missing()
	if len(missing) > fewMembers {
		present, err := t.inQueue(q.live)
		if err != nil {
			t.notSurveyed(err)
			return
		}
		n := 0
		for _, i := range missing {
			if !present.has(i) {
				missing[n] = i
				n++
			}
		}
		missing = missing[:n]
	}
	var mu sync.Mutex
	var found []foundMember
	err := t.each(q.live, missing, func(ctx context.Context, i int) error {
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
		err = q.settle(q.live)
	}
	if err != nil {
		t.notSurveyed(err)
		return
	}
	lost := 0
	for _, m := range found {
		if m.fate == fateLost {
			lost++
		}
		t.note(m.index, m.fate, m.id)
	}
	if lost > 0 {
		q.count.missing.Add(uint64(lost))
		q.journal.emit(Event{Kind: Missing, Batch: t.id, Count: lost, Text: "members are neither in the queue nor is kept how they ended: they count as lost"})
	}
}

func (t *roster) notSurveyed(err error) {
	if q := t.batches.queue; !q.hopeless(err) {
		q.journal.emit(Event{Kind: NotKept, Batch: t.id, Text: "its members could not be looked for: " + err.Error()})
	}
}

// each calls f for members, some at the same time, until one returns an error.
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

// inQueue reads all jobs and gives the members that are among them.
func (t *roster) inQueue(ctx context.Context) (present wordSet, err error) {
	q := t.batches.queue
	for _, subject := range []string{"at.*", "job.*.*.*"} {
		for from := uint64(1); ; {
			page, err := q.engine.Scan(ctx, engine.Jobs, subject, from, scanPage)
			if err != nil {
				return nil, err
			}
			for _, m := range page {
				from = m.Seq + 1
				_, id, _ := parseSubject(m)
				if s, err := decodeJob(id, m.Data); err == nil && s.batch == t.id && s.index < MostMembers {
					present.set(s.index)
				}
			}
			if len(page) < scanPage {
				break
			}
		}
	}
	return present, nil
}

// foundMember is what has become of a member.
type foundMember struct {
	index int
	ended bool
	fate  fate
	id    string // of its last job
}

// findMember finds out what has become of a member.
func (q *Queue) findMember(ctx context.Context, t *roster, index int) (foundMember, error) {
	t.mu.Lock()
	r := t.record
	t.mu.Unlock()
	m := foundMember{index: index, id: r.member(index)}
	for {
		info, err := q.Get(ctx, m.id)
		switch {
		case errors.Is(err, ErrNotFound):
			return q.findGone(ctx, r, m)
		case errors.Is(err, ErrDamaged):
			return q.findDamaged(ctx, m)
		case err != nil:
			return m, err
		case !info.State.Ended():
			return m, nil
		case info.Next == "":
			m.ended, m.fate = true, fateOf(&ending{outcome: info.Outcome, reason: info.Reason})
			return m, nil
		}
		if left, err := q.leftQueue(ctx, m.id); err != nil || !left {
			return m, err // the next one is not yet there for certain
		}
		m.id = info.Next
	}
}

// findGone is for a member of which neither a job nor an outcome is there.
func (q *Queue) findGone(ctx context.Context, r *batchRecord, m foundMember) (foundMember, error) {
	_, err := q.engine.Get(ctx, engine.Dead, "dead.*."+m.id)
	switch {
	case err == nil:
		m.ended, m.fate = true, fateFailed
		return m, nil
	case !errors.Is(err, engine.ErrNotFound):
		return m, err
	}
	// One that is about to be put is not lost, and one that never was is canceled with
	// its batch.
	m.ended, m.fate = r.state != BatchOpen, fateLost
	if len(r.begun) > 0 && !r.there.has(m.index) {
		m.fate = fateCanceled
	}
	return m, nil
}

// findDamaged is for a member whose record is damaged. While its job is there it is
// buried when its turn comes; without, it has ended.
func (q *Queue) findDamaged(ctx context.Context, m foundMember) (foundMember, error) {
	left, err := q.leftQueue(ctx, m.id)
	if err == nil && left {
		m.ended, m.fate = true, fateLost
	}
	return m, err
}

// CancelBatch takes back all members that have not ended. When it returns nil that
// is recorded and survives a loss of power; the members are canceled after that, by
// this node or by another that takes over, and WaitBatch waits for it. The callbacks
// are enqueued as for any batch. An open batch takes no more members from then on.
// The error is ErrEnded when all had ended, ErrNotFound when there is no such batch.
func (q *Queue) CancelBatch(ctx context.Context, id string) (BatchInfo, error) {
	t, err := q.batches.ready(ctx, id)
	if err != nil {
		return BatchInfo{}, err
	}
	r, err := q.changeBatch(ctx, id, func(r *batchRecord) error {
		switch {
		case !r.ended.IsZero():
			return fmt.Errorf("%w: batch %s is %v", ErrEnded, id, r.state)
		case r.state == BatchCanceled:
			return errUnchanged
		case r.state == BatchOpen:
			r.total = r.begun.end()
		}
		r.state = BatchCanceled
		return nil
	})
	if err != nil {
		return BatchInfo{}, err
	}
	q.journal.emit(Event{Kind: BatchTookBack, Batch: id})
	t.mu.Lock()
	t.cancels = true
	t.mu.Unlock()
	t.advance()
	return q.batchInfo(ctx, r, false)
}

// cancelMembers takes back the members of a batch that have not ended.
func cancelMembers(ctx context.Context, t *roster) error {
	q := t.batches.queue
	err := t.each(ctx, t.missing(), func(ctx context.Context, i int) error { return q.cancelMember(ctx, t, i) })
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancels, t.lookAt = false, time.Now().Add(t.quiet)
	return nil
}

// cancelMember takes back one member, and counts it where nobody else does.
func (q *Queue) cancelMember(ctx context.Context, t *roster, index int) error {
	t.mu.Lock()
	r := t.record
	t.mu.Unlock()
	err := q.CancelChain(ctx, r.member(index))
	switch {
	case err == nil, errors.Is(err, ErrDamaged):
		return nil // it was counted; a damaged one is buried when its turn comes
	case !errors.Is(err, ErrEnded) && !errors.Is(err, ErrNotFound):
		return err
	}
	m, err := q.findMember(ctx, t, index)
	if err != nil || !m.ended {
		return err
	}
	if err := q.settle(ctx); err != nil {
		return err
	}
	t.note(index, m.fate, m.id)
	return nil
}
