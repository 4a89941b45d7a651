package pebble

import (
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// sums holds the counts of what is stored.
type sums struct {
	streams totals
	numbers map[numbered]int64
}

// numbered names a counted front: the messages of one consumer, those with a time, or the
// dead jobs of a queue.
type numbered struct {
	stream engine.Stream
	front  string
}

// readSums reads the counts of the last batch.
func (e *Engine) readSums() (sums, error) {
	s := sums{numbers: map[numbered]int64{}}
	value, closer, err := e.db.Get(e.space.key(kindCounts, 0))
	if errors.Is(err, pebble.ErrNotFound) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	s.streams, err = readTotals(value)
	if err := errors.Join(err, closer.Close()); err != nil {
		return s, err
	}
	start := e.space.key(kindNumber, 0)
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: after(start)})
	if err != nil {
		return s, err
	}
	for iter.First(); iter.Valid() && err == nil; iter.Next() {
		key := iter.Key()
		if len(key) < 4 {
			err = errRecord
			break
		}
		of := numbered{engine.Stream(key[3]), string(key[4:])}
		s.numbers[of], err = readCount(iter.Value())
	}
	return s, errors.Join(err, iter.Close())
}

// count adds n to the number of messages with the front of subject.
func (g *group) count(s engine.Stream, subject string, n int64) {
	if s == engine.Jobs || s == engine.Dead {
		g.numbers[numbered{s, front(subject)}] += n
	}
}

// writeSums adds the counts to the end of the batch.
func (g *group) writeSums() error {
	n := g.engine.space
	if err := g.batch.Set(n.key(kindCounts, 0), g.streams.encode(), nil); err != nil {
		return err
	}
	for of, more := range g.numbers {
		if more == 0 {
			continue
		}
		key := n.number(of.stream, of.front)
		var err error
		if left := g.engine.sums.numbers[of] + more; left == 0 {
			err = g.batch.Delete(key, nil)
		} else {
			err = g.batch.Set(key, binary.AppendUvarint(nil, uint64(left)), nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// apply applies the changes of a group.
func (s *sums) apply(g *group) {
	s.streams = g.streams
	for of, more := range g.numbers {
		if s.numbers[of] += more; s.numbers[of] == 0 {
			delete(s.numbers, of)
		}
	}
}
