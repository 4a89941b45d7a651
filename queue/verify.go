package queue

import (
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// verify reads every stored job once after the start, checks it, and compares
// what is there with the store's own count of what should be. A damaged job is
// told now and buried when its turn comes; one that was confirmed and is there no
// more gets the outcome lost, so that nobody waits for it for ever.
func (q *Queue) verify() {
	owed, counted := q.engine.Unended()
	missing := make(map[string]struct{}, len(owed))
	for _, id := range owed {
		missing[id] = struct{}{}
	}
	n, err := q.readAll(missing, counted)
	if err == nil && counted {
		err = q.reportMissing(missing)
	}
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

// readAll reads all jobs that were there at the start, takes them out of missing,
// and has those counted that were not.
func (q *Queue) readAll(missing map[string]struct{}, counted bool) (n int, err error) {
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
			if _, owed := missing[id]; owed {
				delete(missing, id)
			} else if counted {
				q.engine.Count(id)
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

// reportMissing gives an outcome to the jobs that are neither in the store nor
// have one.
func (q *Queue) reportMissing(missing map[string]struct{}) error {
	for id := range missing {
		_, err := q.Get(q.live, id)
		if err == nil || errors.Is(err, ErrDamaged) {
			continue // it has an outcome, if one that cannot be read
		}
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		e := &ending{
			id: id, outcome: bullpen.Lost, reason: Vanished, ended: time.Now(), node: q.config.Node,
			message: "the store had confirmed it and has it no more: what is stored was damaged, or removed by somebody else",
		}
		if err := q.put(q.live, engine.Put{Stream: engine.Outcomes, Subject: "out." + id, Data: e.encode(), Durable: true, New: true}); err != nil {
			if errors.Is(err, engine.ErrConflict) {
				continue
			}
			return fmt.Errorf("job %s: %w", id, err)
		}
		q.count.missing.Add(1)
		q.tallies.of("").ended[bullpen.Lost].Add(1) // of which queue is not known
		q.journal.emit(Event{Kind: Missing, Job: id, Text: e.message})
		q.tellEnded(e, nil)
		q.announce(e)
	}
	return nil
}
