// Package store has embedded stores with nothing of a job queue around them, all three
// behind one interface, and one group commit in front of them: what a queue on such a
// store cannot beat.
package store

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
)

// Change is what one caller wants stored: a job, or the end of one.
type Change struct {
	// Seq is the place of the job in the order in which jobs are handed out.
	Seq uint64
	// Job is the record of a job that is put; nil where one ends.
	Job []byte
	// Outcome is the record of how the job ended, which takes its place.
	Outcome []byte
	// Subject is that of the job in the index of subjects; empty without one.
	Subject string
}

// Store is a store that is open. Whether it may be used at once by several goroutines
// is said by its kind; a Group does not.
type Store interface {
	// Commit stores all changes in one transaction, which is on the disk when it returns.
	Commit(changes []Change) error
	// First returns the record of the first job that waits, and an error where none does.
	First() ([]byte, error)
	// Count counts what is stored, one by one: jobs that wait, subjects and outcomes.
	Count() (Counts, error)
	Close() error
}

// Counts is how much a store has.
type Counts struct{ Jobs, Subjects, Outcomes int }

// Kind is a store that can be opened.
type Kind struct {
	ID, Title string
	// Synced says what is on the disk when Commit returns, and by which call.
	Synced string
	Open   func(dir string) (Store, error)
}

// Kinds lists the stores.
func Kinds() []Kind {
	return []Kind{
		{ID: "pebble", Title: "Pebble", Synced: "log, 1 fdatasync a commit", Open: OpenPebble},
		{ID: "bbolt", Title: "bbolt", Synced: "pages, then the root: 2 fdatasync a commit", Open: OpenBolt},
		{ID: "sqlite", Title: "SQLite (modernc.org, WAL, synchronous=FULL)", Synced: "log, 1 fsync a commit", Open: OpenSQLite},
	}
}

// recordSize is what a queue stores of a job beside its payload, in bytes.
const recordSize = 150

// text gives n bytes of hexadecimal digits, other ones for each seq: as text does, they
// compress to about half.
func text(seq uint64, n int) []byte {
	at := int(seq * recordSize % uint64(len(digits())-n))
	return digits()[at : at+n]
}

// digits is a megabyte, longer than what any store compresses at a time.
var digits = sync.OnceValue(func() []byte {
	const hex = "0123456789abcdef"
	rnd := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = hex[rnd.IntN(len(hex))]
	}
	return b
})

// Put returns the change that stores a job with that payload.
func Put(seq uint64, payload []byte, subject string) Change {
	job := make([]byte, 0, recordSize+len(payload))
	return Change{Seq: seq, Job: append(append(job, text(seq, recordSize)...), payload...), Subject: subject}
}

// End returns the change that stores the outcome of a job and takes the job away.
func End(seq uint64, subject string) Change {
	return Change{Seq: seq, Outcome: text(seq, recordSize), Subject: subject}
}

// Payload gives size bytes of text for the job seq.
func Payload(seq uint64, size int) []byte { return text(seq*7, size) }

// place is the key of seq, so that keys are in the order of their numbers.
func place(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// errEmpty says that no job waits.
var errEmpty = errors.New("no job waits in the store")
