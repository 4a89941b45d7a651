package client

import (
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// Filter selects the jobs to list.
type Filter struct {
	// Queue and Name select by pool and by name of the task; empty selects all.
	Queue, Name string
	// Group, Schedule and Batch select by group, schedule and batch id; empty selects
	// all.
	Group, Schedule, Batch string
	// States selects by state; empty selects all. It is ignored for dead jobs. The
	// daemon lists one state, or all.
	States []job.State
	// Reason and Outcome select dead jobs by reason and outcome; empty selects all.
	Reason  job.Reason
	Outcome string
	// Cause selects dead jobs by cause, as returned by [Client.DeadCauses].
	Cause string
	// Search selects jobs with this text in their id, task, key, group or, once they
	// have ended, error.
	Search string
	// Since and Before select by when the job ended, or was enqueued if it has not
	// ended.
	Since, Before time.Time
	// Newest lists the newest jobs first.
	Newest bool
	// Limit is the maximum number of jobs on a page; 0 is the daemon's default. For
	// [Client.RetryDeadAll] and the other bulk operations it is the maximum number of
	// jobs.
	Limit int
	// After continues a list: it is the [Page.Next] or [Swept.Next] returned before.
	// Empty starts at the beginning.
	After string
	// All makes RetryDeadAll, RemoveDeadAll and CancelAll apply to all jobs; without
	// it they require a selection.
	All bool
}

// Page is one page of a list of jobs.
type Page struct {
	Jobs []job.Info `json:"jobs"`
	// Next is the [Filter.After] of the next page; empty on the last page.
	Next string `json:"next"`
}

// Swept is the result of retrying, removing or canceling many jobs.
type Swept struct {
	// Count is the number of jobs that were retried, removed or canceled.
	Count int `json:"count"`
	// Failed lists the jobs for which that failed, with the reason.
	Failed []struct {
		ID    string `json:"id"`
		Error string `json:"error"`
	} `json:"failed"`
	// More reports that jobs are left; call again with Next as [Filter.After] to
	// continue after the jobs examined so far.
	More bool   `json:"more"`
	Next string `json:"next,omitempty"`
}
