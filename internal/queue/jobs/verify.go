package jobs

import (
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// verify reads and checks every stored job once after the start. A damaged job is
// reported now and buried when its turn comes.
func (q *Jobs) verify() {
	n, err := q.readAll()
	switch {
	case q.Live.Err() != nil:
	case err != nil:
		q.Journal.Emit(job.Event{Kind: job.NotKept, Text: "the stored jobs could not be verified: " + err.Error()})
	default:
		q.Journal.Emit(job.Event{Kind: job.Verified, Count: n})
	}
	q.Verified.Store(true)
}

// ScanPage is how many messages are read at a time.
const ScanPage = 256

// readAll reads all jobs that were stored before the start.
func (q *Jobs) readAll() (n int, err error) {
	info, err := q.Engine.Info(q.Live)
	if err != nil {
		return 0, err
	}
	last := info.Streams[engine.Jobs].Last
	for from := info.Streams[engine.Jobs].First; from <= last; {
		page, err := q.Engine.Scan(q.Live, engine.Jobs, ">", from, ScanPage)
		if err != nil {
			return n, err
		}
		for _, m := range page {
			from = m.Seq + 1
			n++
			c, id, ok := record.ParseSubject(m)
			if !ok {
				id = engine.LastToken(m.Subject)
			}
			if _, err := record.DecodeJob(id, m.Data); err != nil {
				q.Damaged(c.Queue, id, err)
			}
		}
		if len(page) == 0 {
			break
		}
	}
	return n, nil
}
