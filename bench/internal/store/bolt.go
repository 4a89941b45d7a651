package store

import (
	"path/filepath"

	"go.etcd.io/bbolt"
)

type boltStore struct{ db *bbolt.DB }

var (
	jobBucket     = []byte("jobs")
	subjectBucket = []byte("subjects")
	outcomeBucket = []byte("outcomes")
)

// full is how full a page is when it is split: keys come in their order.
const full = 0.9

// OpenBolt opens a store of bbolt. The list of its free pages is a map, which is the
// faster one of its two ways, and is not written with each commit but made at the start:
// each commit would be longer by it.
func OpenBolt(dir string) (Store, error) {
	db, err := bbolt.Open(filepath.Join(dir, "store.bolt"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType, NoFreelistSync: true})
	if err != nil {
		return nil, err
	}
	s := &boltStore{db: db}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{jobBucket, subjectBucket, outcomeBucket} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

func (s *boltStore) Commit(changes []Change) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		jobs, subjects, outcomes := tx.Bucket(jobBucket), tx.Bucket(subjectBucket), tx.Bucket(outcomeBucket)
		jobs.FillPercent, subjects.FillPercent, outcomes.FillPercent = full, full, full
		for i := range changes {
			if err := apply(&changes[i], jobs, subjects, outcomes); err != nil {
				return err
			}
		}
		return nil
	})
}

func apply(c *Change, jobs, subjects, outcomes *bbolt.Bucket) error {
	key := place(c.Seq)
	if c.Job != nil {
		if c.Subject != "" {
			if err := subjects.Put([]byte(c.Subject), key); err != nil {
				return err
			}
		}
		return jobs.Put(key, c.Job)
	}
	if c.Subject != "" {
		if err := subjects.Delete([]byte(c.Subject)); err != nil {
			return err
		}
	}
	if err := outcomes.Put(key, c.Outcome); err != nil {
		return err
	}
	return jobs.Delete(key)
}

func (s *boltStore) First() (record []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		key, value := tx.Bucket(jobBucket).Cursor().First()
		if key == nil {
			return errEmpty
		}
		record = append([]byte{}, value...)
		return nil
	})
	return record, err
}

func (s *boltStore) Count() (n Counts, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		count := func(name []byte, into *int) error {
			return tx.Bucket(name).ForEach(func(_, _ []byte) error { *into++; return nil })
		}
		for name, into := range map[string]*int{"jobs": &n.Jobs, "subjects": &n.Subjects, "outcomes": &n.Outcomes} {
			if err := count([]byte(name), into); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

func (s *boltStore) Close() error { return s.db.Close() }
