package store

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// The first byte of a key says what it is of.
const (
	jobKey     = 'j'
	outcomeKey = 'o'
	subjectKey = 's'
)

type pebbleStore struct{ db *pebble.DB }

// quiet is Pebble's logger without what is no error.
type quiet struct{ pebble.Logger }

func (quiet) Infof(string, ...any) {}

// OpenPebble opens a store of Pebble; its Commit may be called at once by many
// goroutines. It has Pebble's own settings but for the newest format.
func OpenPebble(dir string) (Store, error) {
	db, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quiet{pebble.DefaultLogger}})
	if err != nil {
		return nil, err
	}
	return pebbleStore{db}, nil
}

func under(kind byte, rest ...byte) []byte { return append([]byte{kind}, rest...) }

func (s pebbleStore) Commit(changes []Change) error {
	b := s.db.NewBatch()
	for i := range changes {
		c := &changes[i]
		var err error
		if c.Job != nil {
			err = b.Set(under(jobKey, place(c.Seq)...), c.Job, nil)
			if c.Subject != "" {
				err = errors.Join(err, b.Set(under(subjectKey, []byte(c.Subject)...), place(c.Seq), nil))
			}
		} else {
			err = errors.Join(b.Set(under(outcomeKey, place(c.Seq)...), c.Outcome, nil), b.Delete(under(jobKey, place(c.Seq)...), nil))
			if c.Subject != "" {
				err = errors.Join(err, b.Delete(under(subjectKey, []byte(c.Subject)...), nil))
			}
		}
		if err != nil {
			return errors.Join(err, b.Close())
		}
	}
	return errors.Join(b.Commit(pebble.Sync), b.Close())
}

// walk calls visit for what is of that kind, until it returns false.
func (s pebbleStore) walk(kind byte, visit func(*pebble.Iterator) bool) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: under(kind), UpperBound: under(kind + 1)})
	if err != nil {
		return err
	}
	for ok := it.First(); ok && visit(it); ok = it.Next() {
	}
	return errors.Join(it.Error(), it.Close())
}

func (s pebbleStore) First() (record []byte, err error) {
	err = s.walk(jobKey, func(it *pebble.Iterator) bool {
		record = append([]byte{}, it.Value()...)
		return false
	})
	if err == nil && record == nil {
		err = errEmpty
	}
	return record, err
}

func (s pebbleStore) Count() (Counts, error) {
	var n Counts
	count := func(kind byte, into *int) error {
		return s.walk(kind, func(*pebble.Iterator) bool { *into++; return true })
	}
	err := errors.Join(count(jobKey, &n.Jobs), count(subjectKey, &n.Subjects), count(outcomeKey, &n.Outcomes))
	return n, err
}

func (s pebbleStore) Close() error { return s.db.Close() }
