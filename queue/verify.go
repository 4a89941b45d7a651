package queue

import "github.com/bullpen-run/bullpen/internal/engine"

// verify reads every stored job once after the start and checks it. A damaged job is
// told now and buried when its turn comes.
func (q *Queue) verify() {
	n, err := q.readAll()
	switch {
	case q.live.Err() != nil:
	case err != nil:
		q.journal.emit(Event{Kind: NotKept, Text: "the stored jobs could not be verified: " + err.Error()})
	default:
		q.journal.emit(Event{Kind: Verified, Count: n})
	}
	q.verified.Store(true)
}

// scanPage is how many messages are read at a time.
const scanPage = 256

// readAll reads all jobs that were there at the start.
func (q *Queue) readAll() (n int, err error) {
	info, err := q.engine.Info(q.live)
	if err != nil {
		return 0, err
	}
	last := info.Streams[engine.Jobs].Last
	for from := info.Streams[engine.Jobs].First; from <= last; {
		page, err := q.engine.Scan(q.live, engine.Jobs, ">", from, scanPage)
		if err != nil {
			return n, err
		}
		for _, m := range page {
			from = m.Seq + 1
			n++
			c, id, ok := parseSubject(m)
			if !ok {
				id = engine.LastToken(m.Subject)
			}
			if _, err := decodeJob(id, m.Data); err != nil {
				q.damaged(c.Queue, id, err)
			}
		}
		if len(page) == 0 {
			break
		}
	}
	return n, nil
}
