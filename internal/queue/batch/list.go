package batch

import (
	"context"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

const (
	// mostLooked is how many batches one call of ListBatches reads. listScan is how many
	// it reads at a time, as each may be as large as its callbacks.
	mostLooked = 20_000
	listScan   = 64
	// batchRecords matches the records of all batches.
	batchRecords = "set.batch.*"
)

// batchLook collects the batches of one page.
type batchLook struct {
	filter *job.BatchFilter
	limit  int
	found  []*record.Batch
	// looked counts the records seen, read the bytes of those found.
	looked, read int
}

// take handles one record, and returns false when the page is full.
func (l *batchLook) take(m engine.Message) bool {
	l.looked++
	if r, err := record.DecodeBatch(m); err == nil && l.filter.Selects(r.State) {
		l.found, l.read = append(l.found, r), l.read+len(m.Data)
	}
	return len(l.found) < l.limit && l.read < jobs.LookBytes && l.looked < mostLooked
}

// ListBatches implements queue.Queue.ListBatches.
func (q *Batches) ListBatches(ctx context.Context, f job.BatchFilter) (job.BatchPage, error) {
	l := &batchLook{filter: &f, limit: min(f.Limit, jobs.MostPage)}
	if l.limit <= 0 {
		l.limit = jobs.DefaultPage
	}
	look := q.oldestBatches
	if f.Newest {
		look = q.newestBatches
	}
	var page job.BatchPage
	next, err := look(ctx, l)
	if err != nil {
		return page, jobs.StoreError(err)
	}
	for _, r := range l.found {
		i, err := q.batchInfo(ctx, r, false)
		if err != nil {
			return page, err
		}
		page.Batches = append(page.Batches, i)
	}
	page.Next = next
	return page, nil
}

// oldestBatches reads batches in order of age, and returns what BatchFilter.After needs
// to continue, 0 at the end.
func (q *Batches) oldestBatches(ctx context.Context, l *batchLook) (next uint64, err error) {
	for from := l.filter.After + 1; ; {
		messages, err := q.Engine.Scan(ctx, engine.State, batchRecords, from, listScan)
		if err != nil {
			return 0, err
		}
		for _, m := range messages {
			from = m.Seq + 1
			if !l.take(m) {
				return m.Seq, nil
			}
		}
		if len(messages) < listScan {
			return 0, nil
		}
	}
}

// newestBatches reads batches backwards. It walks over other messages of State as well,
// so its time is bounded.
func (q *Batches) newestBatches(ctx context.Context, l *batchLook) (next uint64, err error) {
	w := engine.Walk{Back: true, Largest: q.Config.MaxPayload + jobs.RecordRoom} // of both callbacks together
	if w.From = l.filter.After; w.From > 0 {
		if w.From--; w.From == 0 {
			return 0, nil
		}
	}
	end, passed := time.Now().Add(jobs.ListTime), 0
	at, err := q.Engine.Walk(ctx, engine.State, w, func(m engine.Message) bool {
		if passed++; engine.Matches(batchRecords, m.Subject) && !l.take(m) {
			return false
		}
		return passed < jobs.LookLeast || time.Now().Before(end)
	})
	if err != nil || at == 0 {
		return 0, err
	}
	return at + 1, nil
}
