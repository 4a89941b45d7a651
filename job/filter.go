package job

import (
	"errors"
	"fmt"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// Page is a part of a list.
type Page struct {
	Jobs []Info
	// Next is for Filter.After; 0 says that this was the last page.
	Next uint64
}

// Filter selects jobs for queue.Queue.List, queue.Queue.ListDead and what is done to many
// of them. What is empty selects all.
type Filter struct {
	// Queue and Name select by queue and by task.
	Queue, Name string
	// Group, Schedule and Batch select by the group, the schedule that enqueued the
	// job, and the batch that it is a member of.
	Group, Schedule, Batch string
	// State is what to list: Scheduled (also those that wait for another
	// attempt), Queued (also those that run), Done (all that have ended, Canceled
	// and Dead too) or Dead.
	State State
	// Search selects jobs that have this text in their id, task, key, group or,
	// once they have ended, error; whether its letters are large or small makes no difference.
	Search string
	// Reason, Outcome (the word) and Cause select jobs that have ended; a cause is
	// a Fingerprint that queue.Queue.DeadCauses gives.
	Reason         Reason
	Outcome, Cause string
	// Since and Before select by when the job ended, or was enqueued if it has not:
	// not before the one, and before the other.
	Since, Before time.Time
	// Newest lists the last ones first.
	Newest bool
	// Limit is the most jobs; default 100.
	Limit int
	// After goes on behind the last call's Page.Next; empty begins.
	After uint64
}

// longestSearch bounds Filter.Search.
const longestSearch = 256

// Check reports every fault of f at once.
func (f *Filter) Check() error {
	var errs []error
	if f.Queue != "" {
		errs = append(errs, CheckToken("Filter.Queue", f.Queue))
	}
	if len(f.Search) > longestSearch {
		errs = append(errs, fmt.Errorf("Filter.Search has %d bytes: use %d at most", len(f.Search), longestSearch))
	}
	if f.Outcome != "" {
		if _, err := bullpen.ParseOutcome(f.Outcome); err != nil {
			errs = append(errs, fmt.Errorf("Filter.Outcome: %w", err))
		}
	}
	if f.Cause != "" && !IsFingerprint(f.Cause) {
		errs = append(errs, fmt.Errorf("Filter.Cause is %q: use the Fingerprint of a cause, %d hexadecimal digits", f.Cause, FingerprintLength))
	}
	if !f.Since.IsZero() && !f.Before.IsZero() && !f.Since.Before(f.Before) {
		errs = append(errs, fmt.Errorf("Filter.Since %v is not before Filter.Before %v: exchange them", f.Since.Format(time.RFC3339), f.Before.Format(time.RFC3339)))
	}
	return errors.Join(errs...)
}
