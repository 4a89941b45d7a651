package job

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// MostMembers is the largest number of jobs in a batch.
const MostMembers = 1_000_000

// Batch is a set of jobs that are counted together. The zero value has no key, no
// callbacks and no metadata.
type Batch struct {
	// Key makes opening a batch idempotent: opening it again returns the first one,
	// until Config.Keep.OutcomeAge after its end. Empty: no key.
	Key string
	// Then is enqueued once, when all members have ended, whatever their outcomes.
	// Failed is enqueued once, when the first member has failed for good; a canceled
	// member has not failed. Both are ordinary jobs without a Key. If their payload is
	// empty they get a JSON object with batch, total, ok, failed, canceled, lost and
	// first_failed. In Meta they have the first four of these as bullpen.batch,
	// bullpen.total, bullpen.ok and bullpen.failed.
	Then, Failed *Job
	// Meta is kept with the batch.
	Meta map[string]string
}

// BatchState is the state of a batch.
type BatchState uint8

// The states of a batch.
const (
	// BatchOpen: members may still be added.
	BatchOpen BatchState = iota
	// BatchRunning: it is sealed, and some members have not ended.
	BatchRunning
	// BatchDone: all members have ended.
	BatchDone
	// BatchCanceled: it was canceled. It has ended once EndedAt is set.
	BatchCanceled
)

// batchStates is the table of a batch's life. Each move is one conditioned message.
var batchStates = lifecycle.Table[BatchState]{
	Name:   "batch",
	States: map[BatchState]string{BatchOpen: "open", BatchRunning: "running", BatchDone: "done", BatchCanceled: "canceled"},
	Moves: map[BatchState][]BatchState{
		BatchOpen:    {BatchRunning, BatchCanceled},
		BatchRunning: {BatchDone, BatchCanceled},
		BatchDone:    nil, BatchCanceled: nil,
	},
}

// String returns the word for s.
func (s BatchState) String() string { return batchStates.Word(s) }

// Move reports why a batch cannot go from s to another state; nil says that it can.
func (s BatchState) Move(to BatchState) error {
	var m lifecycle.Machine[BatchState]
	m.Init(&batchStates, s)
	return m.Move(s, to)
}

// ParseBatchState returns the state that word names.
func ParseBatchState(word string) (BatchState, error) {
	for s, name := range batchStates.States {
		if name == word {
			return s, nil
		}
	}
	return 0, fmt.Errorf("unknown state %q: use open, running, done or canceled", word)
}

// MarshalText returns the word for s.
func (s BatchState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseBatchState.
func (s *BatchState) UnmarshalText(word []byte) (err error) {
	*s, err = ParseBatchState(string(word))
	return err
}

// BatchInfo describes a batch.
type BatchInfo struct {
	ID, Key string
	State   BatchState
	// Existing reports whether the batch was there before. Only OpenBatch and
	// EnqueueBatch set it.
	Existing bool
	// Total is the number of members; of an open batch, those added so far. Ended is
	// how many of them have ended: OK, Failed for good, Canceled, or Lost. A lost
	// member is no longer in the queue, and its outcome is not known.
	Total, Ended, OK, Failed, Canceled, Lost int
	Created                                  time.Time
	// EndedAt is when the end of the last member was counted; zero before that.
	EndedAt time.Time
	// FirstFailed is the id of the job that failed first, as far as the node that was
	// asked knows.
	FirstFailed string
	// ThenJob and FailedJob are the callbacks; ThenID and FailedID are the ids of their
	// jobs once these are enqueued.
	ThenJob, FailedJob *Job
	ThenID, FailedID   string
	Meta               map[string]string
}

// HasEnded reports whether all members have ended and the callbacks are enqueued.
func (i *BatchInfo) HasEnded() bool {
	return !i.EndedAt.IsZero() && (i.ThenJob == nil || i.ThenID != "")
}

// Check reports all faults of b at once, except sizes that depend on the config of a
// queue.
func (b *Batch) Check() error {
	var errs []error
	if len(b.Key) > longestKey {
		errs = append(errs, fmt.Errorf("Key has %d bytes: use %d at most, for example a hash of it", len(b.Key), longestKey))
	}
	errs = append(errs, checkMeta(b.Meta))
	for name, j := range map[string]*Job{"Then": b.Then, "Failed": b.Failed} {
		if j == nil {
			continue
		}
		if err := j.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		if j.Key != "" {
			errs = append(errs, fmt.Errorf("%s has a key: leave it out, it is enqueued once by itself", name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the batch is not valid: %w", err)
	}
	return nil
}

// BatchFilter selects batches for queue.Queue.ListBatches.
type BatchFilter struct {
	// States are the states to list; nil lists all.
	States []BatchState
	// Newest lists the batches that changed last first.
	Newest bool
	// Limit is the largest number of batches. Default 100. After is BatchPage.Next of
	// the page before; 0 begins.
	Limit int
	After uint64
}

// BatchPage is one page of a list of batches.
type BatchPage struct {
	Batches []BatchInfo
	// Next is BatchFilter.After for the next page; 0 if this is the last one.
	Next uint64
}

// Selects reports whether f selects batches in a state.
func (f *BatchFilter) Selects(s BatchState) bool {
	return len(f.States) == 0 || slices.Contains(f.States, s)
}
