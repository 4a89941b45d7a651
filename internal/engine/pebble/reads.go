package pebble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// reading locks open for reading, so that the caller can use the database, or returns why
// that is impossible.
func (e *Engine) reading() error {
	if err := e.usable(); err != nil {
		return err
	}
	e.open.RLock()
	if e.db == nil {
		e.open.RUnlock()
		return errors.Join(e.Err(), engine.ErrClosed)
	}
	return nil
}

// readError translates a read error: damage ends the engine.
func (e *Engine) readError(err error) error {
	switch {
	case err == nil:
		return nil
	case pebble.IsCorruptionError(err), errors.Is(err, errRecord):
		e.fail(e.storeError(err))
		return e.Err()
	}
	return fmt.Errorf("reading the store: %w", err)
}

// begun is like reading, for a call with a context.
func (e *Engine) begun(ctx context.Context, what string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	return e.reading()
}

// wild reports whether a pattern has wildcards.
func wild(pattern string) bool { return strings.ContainsAny(pattern, "*>") }

// Get returns the newest message whose subject matches.
func (e *Engine) Get(ctx context.Context, s engine.Stream, subject string) (engine.Message, error) {
	if err := engine.CheckStream(s); err != nil {
		return engine.Message{}, err
	}
	if err := e.begun(ctx, "get "+subject); err != nil {
		return engine.Message{}, err
	}
	defer e.open.RUnlock()
	for range 1000 { // retry if the message left between two reads
		at, err := e.newest(s, subject)
		if err != nil {
			return engine.Message{}, e.readError(err)
		}
		if at == 0 {
			return engine.Message{}, fmt.Errorf("get %s: %w", subject, engine.ErrNotFound)
		}
		i, found, err := readMessage(e.db, e.space.message(s, at))
		if err != nil {
			return engine.Message{}, e.readError(err)
		}
		if found {
			return i.message(s, at), nil
		}
	}
	return engine.Message{}, e.readError(fmt.Errorf("%w: message on %s is only in the index", errRecord, subject))
}

// newest returns the number of the newest message whose subject matches, 0 for none.
func (e *Engine) newest(s engine.Stream, pattern string) (uint64, error) {
	if !wild(pattern) {
		entries, err := readIndex(e.db, e.space.index(s, pattern))
		if err != nil || len(entries) == 0 {
			return 0, err
		}
		return entries[len(entries)-1].seq, nil
	}
	newest := uint64(0)
	if start, ok := indexStart(s, pattern); ok {
		err := e.eachEntry(s, start, pattern, func(p entry) { newest = max(newest, p.seq) })
		return newest, err
	}
	for at := uint64(0); ; {
		page, next, err := e.page(s, paging{at: at, back: true, pattern: pattern, most: 1})
		if err != nil {
			return 0, err
		}
		if len(page) > 0 {
			return page[0].Seq, nil
		}
		if at = next; at == 0 {
			return 0, nil
		}
	}
}

// indexStart returns where the matches of a pattern start in the index, if they are
// neighbors there.
func indexStart(s engine.Stream, pattern string) (string, bool) {
	if s != engine.State {
		token := engine.LastToken(pattern)
		return token + "\x00", !wild(token)
	}
	start := pattern[:strings.IndexAny(pattern+"*", "*>")]
	return start, strings.Count(start, ".") >= 2
}

// eachEntry calls visit for each message whose subject matches a pattern and whose index
// key begins with start.
func (e *Engine) eachEntry(s engine.Stream, start, pattern string, visit func(entry)) error {
	from := e.space.indexFrom(s, start)
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: after(from)})
	if err != nil {
		return err
	}
	for iter.First(); iter.Valid(); iter.Next() {
		subject, ok := subjectAt(s, iter.Key())
		entries, err := readEntries(iter.Value())
		if !ok || err != nil {
			iter.Close() //nolint:errcheck // the other error is returned
			return errRecord
		}
		if !engine.Matches(pattern, subject) {
			continue
		}
		for _, p := range entries {
			visit(p)
		}
	}
	return iter.Close()
}

// paging selects the messages of one page.
type paging struct {
	at      uint64 // 0 is the first or last message of the stream
	back    bool
	pattern string // empty matches everything
	most    int
	bytes   int64 // approximate size of the data; 0 is no bound
}

// mostLooked is how many messages one page reads, so that Close need not wait long.
const mostLooked = 4096

// page reads messages in the order of their numbers. next is where to continue, 0 at the
// end.
func (e *Engine) page(s engine.Stream, p paging) (found []engine.Message, next uint64, err error) {
	o := &pebble.IterOptions{LowerBound: e.space.message(s, 0), UpperBound: e.space.message(s+1, 0)}
	switch {
	case p.at == 0:
	case p.back:
		o.UpperBound = after(e.space.message(s, p.at))
	default:
		o.LowerBound = e.space.message(s, p.at)
	}
	iter, err := e.db.NewIter(o)
	if err != nil {
		return nil, 0, err
	}
	step, size := iter.Next, int64(0)
	if p.back {
		step = iter.Prev
		iter.Last()
	} else {
		iter.First()
	}
	for looked := 0; iter.Valid(); step() {
		seq, ok := seqOf(iter.Key())
		if looked++; len(found) == p.most || looked > mostLooked || p.bytes > 0 && size > p.bytes {
			next = seq
			break
		}
		value := iter.Value()
		i, err := readItem(value)
		if err != nil || !ok {
			iter.Close() //nolint:errcheck // the other error is returned
			return found, 0, errRecord
		}
		if p.pattern != "" && !engine.Matches(p.pattern, i.subject) || e.acknowledged(s, seq) {
			continue
		}
		i.data = slices.Clone(i.data)
		size += int64(len(i.data))
		found = append(found, i.message(s, seq))
	}
	return found, next, iter.Close()
}

// Scan returns up to limit messages whose subject matches, starting at a sequence number.
func (e *Engine) Scan(ctx context.Context, s engine.Stream, subject string, from uint64, limit int) ([]engine.Message, error) {
	if err := engine.CheckStream(s); err != nil {
		return nil, err
	}
	if limit <= 0 {
		return nil, e.usable()
	}
	if start, ok := indexStart(s, subject); ok {
		return e.scanIndex(ctx, s, start, subject, from, limit)
	}
	if c, id, ok := engine.ParseJob(subject); ok && s == engine.Jobs && (id == "*" || id == ">") && !wild(c.Queue+c.Priority) {
		return e.scanReady(ctx, c, from, limit)
	}
	var found []engine.Message
	for at := max(from, 1); ; {
		if err := e.begun(ctx, "scan "+subject); err != nil {
			return nil, err
		}
		page, next, err := e.page(s, paging{at: at, pattern: subject, most: limit - len(found)})
		e.open.RUnlock()
		if err != nil {
			return nil, e.readError(err)
		}
		if found = append(found, page...); next == 0 || len(found) == limit {
			return found, nil
		}
		at = next
	}
}

// scanIndex finds messages with the index.
func (e *Engine) scanIndex(ctx context.Context, s engine.Stream, start, pattern string, from uint64, limit int) ([]engine.Message, error) {
	if err := e.begun(ctx, "scan "+pattern); err != nil {
		return nil, err
	}
	defer e.open.RUnlock()
	var seqs []uint64
	err := e.eachEntry(s, start, pattern, func(p entry) {
		if p.seq >= from {
			seqs = append(seqs, p.seq)
		}
	})
	if err != nil {
		return nil, e.readError(err)
	}
	slices.Sort(seqs)
	var found []engine.Message
	for _, seq := range seqs {
		if len(found) == limit {
			break
		}
		i, there, err := readMessage(e.db, e.space.message(s, seq))
		if err != nil {
			return nil, e.readError(err)
		}
		if there && !e.acknowledged(s, seq) { // otherwise it left in between
			found = append(found, i.message(s, seq))
		}
	}
	return found, nil
}

// scanReady finds the jobs of one consumer.
func (e *Engine) scanReady(ctx context.Context, c engine.Consumer, from uint64, limit int) ([]engine.Message, error) {
	var found []engine.Message
	for whole := false; !whole && len(found) < limit; {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("scan: %w", context.Cause(ctx))
		}
		var page []waitingJob
		var err error
		page, whole, err = e.readReady(c, from, 1<<63, limit-len(found))
		if err != nil {
			return nil, err
		}
		for _, j := range page {
			if from = j.seq + 1; !e.acknowledged(engine.Jobs, j.seq) {
				found = append(found, j.item.message(engine.Jobs, j.seq))
			}
		}
	}
	return found, nil
}

// acknowledged reports whether a message is a job that has ended and will soon be
// removed.
func (e *Engine) acknowledged(s engine.Stream, seq uint64) bool {
	if s != engine.Jobs {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.records[seq]
	return r != nil && r.isGone()
}
