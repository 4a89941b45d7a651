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

// Batch is a set of jobs that are counted together. The zero value counts and does
// nothing else.
type Batch struct {
	// Key makes it the one batch of this name, as long as it is kept.
	Key string
	// Then is enqueued once, when all jobs have ended, however they did; Failed once,
	// when the first has failed for good. Their Pool says where to. Where these have
	// no payload they get a JSON object with batch, total, ok, failed, canceled, lost
	// and first_failed.
	Then, Failed *Job
	// Meta is kept with the batch.
	Meta map[string]string
}

// BatchState is where a batch is.
type BatchState string

// The states of a batch.
const (
	// BatchOpen: more jobs may be added.
	BatchOpen BatchState = "open"
	// BatchRunning: it is sealed, and not all jobs have ended.
	BatchRunning BatchState = "running"
	// BatchDone: all have ended.
	BatchDone BatchState = "done"
	// BatchCanceled: it was canceled. It has ended when EndedAt says so.
	BatchCanceled BatchState = "canceled"
)

// BatchInfo is what there is to know of a batch.
type BatchInfo struct {
	ID    string     `json:"id"`
	Key   string     `json:"key"`
	State BatchState `json:"state"`
	// Existing says that the batch was there before, under the same key.
	Existing bool `json:"existing"`
	// Total is how many jobs it has. Ended of them have ended: OK, Failed for good,
	// Canceled, or Lost: neither in the queue, nor is kept how they ended.
	Total    int       `json:"total"`
	Ended    int       `json:"ended"`
	OK       int       `json:"ok"`
	Failed   int       `json:"failed"`
	Canceled int       `json:"canceled"`
	Lost     int       `json:"lost"`
	Created  time.Time `json:"created"`
	EndedAt  time.Time `json:"ended_at"`
	// FirstFailed is the job that failed first, as far as is known.
	FirstFailed string `json:"first_failed"`
	// ThenID and FailedID are the jobs of the callbacks, once they are enqueued.
	ThenID   string            `json:"then_id"`
	FailedID string            `json:"failed_id"`
	Meta     map[string]string `json:"meta"`
	// Raw is the batch as the daemon gave it, in JSON.
	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON reads a batch as the daemon gives it.
func (i *BatchInfo) UnmarshalJSON(text []byte) error {
	type plain BatchInfo
	if err := json.Unmarshal(text, (*plain)(i)); err != nil {
		return err
	}
	i.Raw = append(json.RawMessage(nil), text...)
	return nil
}

// wireBatch is a batch as it is handed in.
type wireBatch struct {
	Key    string            `json:"key,omitempty"`
	Pool   string            `json:"pool,omitempty"`
	Then   *wireJob          `json:"then,omitempty"`
	Failed *wireJob          `json:"failed,omitempty"`
	Meta   map[string]string `json:"meta,omitempty"`
}

func batchPath(id, verb string) string { return "/v1/batches/" + escape(id) + verb }

// OpenBatch makes a batch to which jobs are added by AddToBatch, until SealBatch
// says that these are all. The callbacks go to pool where they name none. With a Key
// it is asked for again after a broken connection, see [Config.Retries].
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

// AddToBatch enqueues jobs of an open batch, from number offset on; the numbers of a
// batch begin at 0 and have no gaps in the end. They go to pool where their Pool says
// nothing, and have no Key. Adding them again does no harm: those that are there stay
// and are Existing. Refs and errors are as from EnqueueAll.
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

// SealBatch says that an open batch has total jobs and gets no more. Where that is not
// so the error is [ErrIncomplete], and names the numbers that are missing.
func (c *Client) SealBatch(ctx context.Context, id string, total int) (*BatchInfo, error) {
	return c.batch(ctx, call{method: http.MethodPost, path: batchPath(id, "/seal"), again: true}, map[string]int{"total": total})
}

// EnqueueBatch opens a batch, adds jobs and seals it. After an error some of the jobs
// may be there, and the batch is open: call it again with the same Key and jobs.
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

// GetBatch returns what is known of a batch.
func (c *Client) GetBatch(ctx context.Context, id string) (*BatchInfo, error) {
	return c.batch(ctx, call{method: http.MethodGet, path: batchPath(id, ""), again: true}, nil)
}

// WaitBatch waits until all jobs of a batch have ended and its callbacks are
// enqueued, however long it takes.
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

// CancelBatch takes back all jobs of a batch that have not ended. They are canceled
// after it has returned; WaitBatch waits for that.
func (c *Client) CancelBatch(ctx context.Context, id string) (*BatchInfo, error) {
	return c.batch(ctx, call{method: http.MethodPost, path: batchPath(id, "/cancel")}, nil)
}

// BatchFilter says which batches to list.
type BatchFilter struct {
	// State selects by state; empty is all.
	State BatchState
	// Newest lists those that changed last first.
	Newest bool
	// Limit is the most batches of one page; 0 is the daemon's default.
	Limit int
	// After goes on behind [BatchPage.Next]; empty begins.
	After string
}

// BatchPage is a part of a list of batches.
type BatchPage struct {
	Batches []BatchInfo `json:"batches"`
	// Next is for [BatchFilter.After]; empty says that this was the last page.
	Next string `json:"next"`
}

// ListBatches returns a page of batches, in the order of their last change of state
// or the other way round, without the payloads of their callbacks.
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

// BatchJobs yields the jobs of a batch in the order of their numbers: of a chain the
// one that is due, or the last. An error ends it.
func (c *Client) BatchJobs(ctx context.Context, id string) iter.Seq2[Info, error] {
	return pages(Filter{}, func(f Filter) (Page, error) {
		var p Page
		err := c.getJSON(ctx, batchPath(id, "/jobs"), f.query(false), &p)
		return p, err
	})
}

// untilThere waits until a job is there that is about to be enqueued.
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

// How long a job of a chain may not be there although the one before it has ended:
// it is enqueued right after that.
const (
	thereTries = 100
	therePause = 20 * time.Millisecond
)
