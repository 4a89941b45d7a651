package job

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// MostMembers is how many jobs a batch has at most.
const MostMembers = 1_000_000

// Batch is a set of jobs that are counted together. The zero value counts and does
// nothing else.
type Batch struct {
	// Key makes it the one batch of this name: opening it again gives back the first,
	// as long as its record is kept (Config.Keep.OutcomeAge after its end). Empty is
	// no key.
	Key string
	// Then is enqueued once, when all members have ended, however they did. Failed is
	// enqueued once, when the first has failed for good; a member that was canceled
	// has not failed. Both are jobs like any other, without a Key. Where the payload
	// is empty they get a JSON object with batch, total, ok, failed, canceled, lost
	// and first_failed; in Meta they have the first four as bullpen.batch,
	// bullpen.total, bullpen.ok and bullpen.failed.
	Then, Failed *Job
	// Meta is kept with the batch.
	Meta map[string]string
}

// BatchState is where a batch is.
type BatchState uint8

// The states of a batch.
const (
	// BatchOpen: more members may be added.
	BatchOpen BatchState = iota
	// BatchRunning: it is sealed, and not all members have ended.
	BatchRunning
	// BatchDone: all have ended.
	BatchDone
	// BatchCanceled: it was canceled. It has ended when EndedAt says so.
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

// BatchInfo is what there is to know of a batch.
type BatchInfo struct {
	ID, Key string
	State   BatchState
	// Existing says that the batch was there before, of what OpenBatch and
	// EnqueueBatch return.
	Existing bool
	// Total is how many members it has; of one that is open, how many are there.
	// Ended of them have ended: OK, Failed for good, Canceled, or Lost: they are no
	// more in the queue, and neither is how they ended.
	Total, Ended, OK, Failed, Canceled, Lost int
	Created                                  time.Time
	// EndedAt is when the end of the last member was counted; zero before.
	EndedAt time.Time
	// FirstFailed is the id of the job that failed first, as far as the node knows
	// that was asked.
	FirstFailed string
	// ThenJob and FailedJob are the callbacks, ThenID and FailedID the ids of their
	// jobs once they are enqueued.
	ThenJob, FailedJob *Job
	ThenID, FailedID   string
	Meta               map[string]string
}

// HasEnded reports whether all members have ended and the callbacks are enqueued.
func (i *BatchInfo) HasEnded() bool {
	return !i.EndedAt.IsZero() && (i.ThenJob == nil || i.ThenID != "")
}

// Check reports every fault of b at once, but for sizes that a queue bounds by its
// config.
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
	// States are those to list; nil is all.
	States []BatchState
	// Newest lists those that changed last first.
	Newest bool
	// Limit is the most batches; default 100. After goes on behind the last call's
	// BatchPage.Next.
	Limit int
	After uint64
}

// BatchPage is a part of a list of batches.
type BatchPage struct {
	Batches []BatchInfo
	// Next is for BatchFilter.After; 0 says that this was the last page.
	Next uint64
}

// Selects reports whether f selects batches in a state.
func (f *BatchFilter) Selects(s BatchState) bool {
	return len(f.States) == 0 || slices.Contains(f.States, s)
}
