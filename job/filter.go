package job

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// Page is one page of a list.
type Page struct {
	Jobs []Info `json:"jobs"`
	// Next is Filter.After for the next page; empty if this is the last one.
	Next string `json:"next,omitempty"`
}

// Filter selects jobs for queue.Queue.List, queue.Queue.ListDead and the calls that change
// many jobs. An empty field selects all.
type Filter struct {
	// Queue and Name select by queue and by name of the task.
	Queue, Name string
	// Group, Schedule and Batch select by the group, the schedule that enqueued the
	// job, and the batch that it is a member of.
	Group, Schedule, Batch string
	// States select by state; none selects all. Calls for dead jobs ignore it.
	States []State
	// Search selects jobs with this text in their id, task, key, group or, once they
	// have ended, error. It ignores case.
	Search string
	// Reason, Outcome (its word) and Cause select jobs that have ended. A cause is a
	// Fingerprint from queue.Queue.DeadCauses.
	Reason         Reason
	Outcome, Cause string
	// Since and Before select by the time at which the job ended, or was enqueued if
	// it has not ended: at or after Since, and before Before.
	Since, Before time.Time
	// Newest lists the newest jobs first.
	Newest bool
	// Limit is the largest number of jobs. Default 100.
	Limit int
	// After is Page.Next of the page before, or Bulk.Next; empty begins.
	After string
}

// ErrAfter says that the After of a filter is not what a Next was.
var ErrAfter = errors.New("After is not what Next of the page before was")

// All reports whether f selects all jobs.
func (f *Filter) All() bool {
	return f.Queue+f.Name+f.Group+f.Schedule+f.Batch+f.Search+string(f.Reason)+f.Outcome+f.Cause == "" &&
		len(f.States) == 0 && f.Since.IsZero() && f.Before.IsZero()
}

// after is the form of Filter.After: a part of the store and a number in it, or "n" and a
// number for each part.
var after = regexp.MustCompile(`^([0-3]|n\.\d{1,18}\.\d{1,18})\.\d{1,18}$`)

// longestSearch bounds Filter.Search.
const longestSearch = 256

// Check reports all faults of f at once.
func (f *Filter) Check() error {
	var errs []error
	if f.Queue != "" {
		errs = append(errs, CheckToken("Filter.Queue", f.Queue))
	}
	if len(f.Search) > longestSearch {
		errs = append(errs, fmt.Errorf("Filter.Search has %d bytes: use %d at most", len(f.Search), longestSearch))
	}
	if f.After != "" && !after.MatchString(f.After) {
		errs = append(errs, fmt.Errorf("%w: %q", ErrAfter, f.After))
	}
	for _, s := range f.States {
		if _, known := jobStates.States[s]; !known {
			errs = append(errs, fmt.Errorf("Filter.States has the unknown %v", s))
		}
	}
	if f.Outcome != "" {
		if _, err := bullpen.ParseOutcome(f.Outcome); err != nil {
			errs = append(errs, fmt.Errorf("Filter.Outcome: %w", err))
		}
	}
	if f.Cause != "" && !isFingerprint(f.Cause) {
		errs = append(errs, fmt.Errorf("Filter.Cause is %q: use the Fingerprint of a cause, %d hexadecimal digits", f.Cause, FingerprintLength))
	}
	if !f.Since.IsZero() && !f.Before.IsZero() && !f.Since.Before(f.Before) {
		errs = append(errs, fmt.Errorf("Filter.Since %v is not before Filter.Before %v: exchange them", f.Since.Format(time.RFC3339), f.Before.Format(time.RFC3339)))
	}
	return errors.Join(errs...)
}
