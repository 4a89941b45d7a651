package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"time"
)

// Batch is a set of jobs that are counted together. The zero value only counts them.
type Batch struct {
	// Key identifies the batch: while a batch with this key is kept, OpenBatch
	// returns it instead of opening another.
	Key string
	// Then and Failed are the callbacks. Then is enqueued once, when all jobs have
	// ended with any outcome; Failed is enqueued once, when the first job has failed
	// for good. Their Pool selects the pool. A callback without a payload gets a JSON
	// object with batch, total, ok, failed, canceled, lost and first_failed.
	Then, Failed *Job
	// Meta is kept with the batch.
	Meta map[string]string
}

// BatchState is the state of a batch.
type BatchState string

// The states of a batch.
const (
	// BatchOpen: jobs can still be added.
	BatchOpen BatchState = "open"
	// BatchRunning: the batch is sealed, and some jobs have not ended.
	BatchRunning BatchState = "running"
	// BatchDone: all jobs have ended.
	BatchDone BatchState = "done"
	// BatchCanceled: the batch was canceled. Its jobs have all ended once EndedAt is
	// set.
	BatchCanceled BatchState = "canceled"
)

// BatchInfo describes a batch.
type BatchInfo struct {
	ID    string     `json:"id"`
	Key   string     `json:"key"`
	State BatchState `json:"state"`
	// Existing reports that a batch with the same key already existed.
	Existing bool `json:"existing"`
	// Total is the number of jobs in the batch, and Ended the number of those that
	// have ended: OK, Failed for good, Canceled, or Lost. A job is lost if it is no
	// longer in the queue and its outcome is no longer kept.
	Total    int       `json:"total"`
	Ended    int       `json:"ended"`
	OK       int       `json:"ok"`
	Failed   int       `json:"failed"`
	Canceled int       `json:"canceled"`
	Lost     int       `json:"lost"`
	Created  time.Time `json:"created"`
	EndedAt  time.Time `json:"ended_at"`
	// FirstFailed is the id of the job that failed first, if known.
	FirstFailed string `json:"first_failed"`
	// ThenID and FailedID are the ids of the callbacks, once they are enqueued.
	ThenID   string            `json:"then_id"`
	FailedID string            `json:"failed_id"`
	Meta     map[string]string `json:"meta"`
	// Raw is the batch as the daemon returned it, in JSON.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON decodes a batch from the daemon's JSON.
func (i *BatchInfo) UnmarshalJSON(text []byte) error {
	type plain BatchInfo
	if err := json.Unmarshal(text, (*plain)(i)); err != nil {
		return err
	}
	i.Raw = append(json.RawMessage(nil), text...)
	return nil
}

// wireBatch is the JSON body of a new batch.
type wireBatch struct {
	Key    string            `json:"key,omitempty"`
	Pool   string            `json:"pool,omitempty"`
	Then   *wireJob          `json:"then,omitempty"`
	Failed *wireJob          `json:"failed,omitempty"`
	Meta   map[string]string `json:"meta,omitempty"`
}

func batchPath(id, verb string) string { return "/v1/batches/" + escape(id) + verb }

// OpenBatch opens a batch. Add jobs to it with AddToBatch, and close it to further
// jobs with SealBatch. Callbacks that name no pool go to pool. With a Key, the call
// is retried after a broken connection; see [Config.Retries].
func (c *Client) OpenBatch(ctx context.Context, pool string, b Batch) (*BatchInfo, error) {
	if b.Key == "" && c.config.Keys {
		b.Key = rand.Text()
	}
	w := wireBatch{Key: b.Key, Pool: pool, Meta: b.Meta}
	for _, of := range []struct {
		job *Job
		to  **wireJob
	}{{b.Then, &w.Then}, {b.Failed, &w.Failed}} {
		if of.job == nil {
			continue
		}
		j, err := wireOf(of.job)
		if err != nil {
			return nil, err
		}
		*of.to = &j
	}
	return c.batch(ctx, call{method: http.MethodPost, path: "/v1/batches", again: b.Key != ""}, &w)
}

func (c *Client) batch(ctx context.Context, r call, body any) (*BatchInfo, error) {
	i := new(BatchInfo)
	if err := c.callJSON(ctx, r, body, i); err != nil {
		return nil, err
	}
	return i, nil
}

// AddToBatch enqueues jobs as members of an open batch and numbers them from offset.
// The numbers of a batch begin at 0 and must have no gaps when it is sealed. Jobs
// that name no pool go to pool; jobs of a batch have no Key. Adding a job again is
// safe: the first one stays, and its ref is marked Existing. Refs and errors are as
// from EnqueueAll.
func (c *Client) AddToBatch(ctx context.Context, id string, offset int, pool string, jobs []Job) ([]Ref, error) {
	refs, errs, failed := make([]Ref, 0, len(jobs)), make([]error, 0, len(jobs)), false
	b := &batch{client: c, pool: pool, members: id, offset: offset}
	keep := func(ref Ref, err error) bool {
		refs, errs = append(refs, ref), append(errs, err)
		failed = failed || err != nil
		return true
	}
	for i := range jobs {
		b.add(jobs[i])
		if last := len(b.entries) - 1; b.entries[last].err != nil {
			return refs, b.entries[last].err
		}
		if len(b.entries) >= batchJobs || b.size >= batchBytes {
			b.flush(ctx, keep)
			b.offset = offset + len(refs)
		}
	}
	b.flush(ctx, keep)
	if failed {
		return refs, &BulkError{errs}
	}
	return refs, nil
}

// SealBatch declares that an open batch has total jobs and accepts no more. If jobs
// are missing or there are too many, the error is [ErrIncomplete] and lists the
// missing numbers.
func (c *Client) SealBatch(ctx context.Context, id string, total int) (*BatchInfo, error) {
	return c.batch(ctx, call{method: http.MethodPost, path: batchPath(id, "/seal"), again: true}, map[string]int{"total": total})
}

// EnqueueBatch opens a batch, adds jobs and seals it. After an error the batch may be
// open with some of the jobs: call EnqueueBatch again with the same Key and jobs.
func (c *Client) EnqueueBatch(ctx context.Context, pool string, b Batch, jobs []Job) (*BatchInfo, error) {
	i, err := c.OpenBatch(ctx, pool, b)
	if err != nil || i.State != BatchOpen {
		return i, err
	}
	if _, err := c.AddToBatch(ctx, i.ID, 0, pool, jobs); err != nil {
		return i, err
	}
	sealed, err := c.SealBatch(ctx, i.ID, len(jobs))
	if err != nil {
		return i, err
	}
	sealed.Existing = i.Existing
	return sealed, nil
}

// GetBatch returns the current state of a batch.
func (c *Client) GetBatch(ctx context.Context, id string) (*BatchInfo, error) {
	return c.batch(ctx, call{method: http.MethodGet, path: batchPath(id, ""), again: true}, nil)
}

// WaitBatch waits, without a time limit of its own, until all jobs of a batch have
// ended and its callbacks are enqueued.
func (c *Client) WaitBatch(ctx context.Context, id string) (*BatchInfo, error) {
	r := call{method: http.MethodGet, path: batchPath(id, ""), wait: c.config.Wait, again: true}
	var q query
	q.duration("wait", r.wait)
	r.query = q.String()
	for {
		i, err := c.batch(ctx, r, nil)
		var raw struct {
			Then json.RawMessage `json:"then"`
		}
		switch {
		case err != nil:
			return nil, err
		case json.Unmarshal(i.Raw, &raw) == nil && !i.EndedAt.IsZero() && (raw.Then == nil || i.ThenID != ""):
			return i, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
	}
}

// CancelBatch cancels all jobs of a batch that have not ended. It returns before they
// have ended; use WaitBatch to wait for that.
func (c *Client) CancelBatch(ctx context.Context, id string) (*BatchInfo, error) {
	return c.batch(ctx, call{method: http.MethodPost, path: batchPath(id, "/cancel")}, nil)
}

// BatchFilter selects the batches to list.
type BatchFilter struct {
	// State selects by state; empty is all.
	State BatchState
	// Newest lists the most recently changed batches first.
	Newest bool
	// Limit is the maximum number of batches on a page; 0 is the daemon's default.
	Limit int
	// After continues a list: it is [BatchPage.Next] of the page before. Empty starts
	// at the beginning.
	After string
}

// BatchPage is one page of a list of batches.
type BatchPage struct {
	Batches []BatchInfo `json:"batches"`
	// Next is the [BatchFilter.After] of the next page; empty on the last page.
	Next string `json:"next"`
}

// ListBatches returns a page of batches ordered by their last change of state, oldest
// first unless f.Newest is set. The payloads of callbacks are left out.
func (c *Client) ListBatches(ctx context.Context, f BatchFilter) (BatchPage, error) {
	var q query
	q.text("state", string(f.State))
	if f.Newest {
		q.text("order", "newest")
	}
	q.number("limit", int64(f.Limit))
	q.text("after", f.After)
	var p BatchPage
	err := c.getJSON(ctx, "/v1/batches", q.String(), &p)
	return p, err
}

// BatchJobs yields the jobs of a batch in the order of their numbers. If a member is
// a chain, BatchJobs yields the chain's current job, or its last. It stops after an
// error.
func (c *Client) BatchJobs(ctx context.Context, id string) iter.Seq2[Info, error] {
	return pages(Filter{}, func(f Filter) (Page, error) {
		var p Page
		err := c.getJSON(ctx, batchPath(id, "/jobs"), f.query(false), &p)
		return p, err
	})
}

// untilThere waits until a job that is about to be enqueued can be found.
func (c *Client) untilThere(ctx context.Context, id string) error {
	for n := 0; ; n++ {
		_, err := c.Get(ctx, id)
		if !errors.Is(err, ErrNotFound) || n > thereTries {
			return err
		}
		select {
		case <-time.After(therePause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// How often and how long untilThere waits. The next job of a chain is enqueued right
// after the one before it has ended, so there is a short time in which it cannot be
// found.
const (
	thereTries = 100
	therePause = 20 * time.Millisecond
)
