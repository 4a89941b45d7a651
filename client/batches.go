package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

func batchPath(id, verb string) string { return "/v1/batches/" + escape(id) + verb }

// OpenBatch opens a batch. Add jobs to it with AddToBatch, and close it to further
// jobs with SealBatch. With a Key, the call is retried after a broken connection; see
// [Config.Retries].
func (c *Client) OpenBatch(ctx context.Context, b job.Batch) (*job.BatchInfo, error) {
	if b.Key == "" && c.config.Keys {
		b.Key = rand.Text()
	}
	body := struct {
		Key    string            `json:"key,omitempty"`
		Then   json.RawMessage   `json:"then,omitempty"`
		Failed json.RawMessage   `json:"failed,omitempty"`
		Meta   map[string]string `json:"meta,omitempty"`
	}{Key: b.Key, Meta: b.Meta}
	for _, callback := range []struct {
		job  *job.Job
		text *json.RawMessage
	}{{b.Then, &body.Then}, {b.Failed, &body.Failed}} {
		if callback.job == nil {
			continue
		}
		j := *callback.job
		j.Queue = poolOf(&j)
		var err error
		if *callback.text, err = encodeJob(&j); err != nil {
			return nil, err
		}
	}
	return c.batch(ctx, call{method: http.MethodPost, path: "/v1/batches", again: b.Key != ""}, &body)
}

func (c *Client) batch(ctx context.Context, r call, body any) (*job.BatchInfo, error) {
	i := new(job.BatchInfo)
	if err := c.callJSON(ctx, r, body, i); err != nil {
		return nil, err
	}
	return i, nil
}

// AddToBatch enqueues jobs as members of an open batch and numbers them from offset.
// The numbers of a batch begin at 0 and must have no gaps when it is sealed. Jobs of a
// batch have no Key. Adding a job again is safe: the first one stays, and its ref is
// marked Existing. Refs and errors are as from EnqueueAll.
func (c *Client) AddToBatch(ctx context.Context, id string, offset int, jobs []job.Job) ([]job.Ref, error) {
	refs, errs, failed := make([]job.Ref, 0, len(jobs)), make([]error, 0, len(jobs)), false
	b := &batch{client: c, members: id, offset: offset}
	keep := func(ref job.Ref, err error) bool {
		refs, errs = append(refs, ref), append(errs, err)
		failed = failed || err != nil
		return true
	}
	for i := range jobs {
		j := jobs[i]
		j.Queue = poolOf(&j)
		b.add(&j)
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
// are missing or there are too many, the error is [job.ErrIncomplete] and lists the
// missing numbers.
func (c *Client) SealBatch(ctx context.Context, id string, total int) (*job.BatchInfo, error) {
	return c.batch(ctx, call{method: http.MethodPost, path: batchPath(id, "/seal"), again: true}, map[string]int{"total": total})
}

// EnqueueBatch opens a batch, adds jobs and seals it. After an error the batch may be
// open with some of the jobs: call EnqueueBatch again with the same Key and jobs.
func (c *Client) EnqueueBatch(ctx context.Context, b job.Batch, jobs []job.Job) (*job.BatchInfo, error) {
	i, err := c.OpenBatch(ctx, b)
	if err != nil || i.State != job.BatchOpen {
		return i, err
	}
	if _, err := c.AddToBatch(ctx, i.ID, 0, jobs); err != nil {
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
func (c *Client) GetBatch(ctx context.Context, id string) (*job.BatchInfo, error) {
	return c.batch(ctx, call{method: http.MethodGet, path: batchPath(id, ""), again: true}, nil)
}

// WaitBatch waits, without a time limit of its own, until all jobs of a batch have
// ended and its callbacks are enqueued.
func (c *Client) WaitBatch(ctx context.Context, id string) (*job.BatchInfo, error) {
	r := call{method: http.MethodGet, path: batchPath(id, ""), wait: c.config.Wait, again: true}
	var q query
	q.wait(r.wait)
	r.query = q.String()
	for {
		i, err := c.batch(ctx, r, nil)
		switch {
		case err != nil:
			return nil, err
		case i.HasEnded():
			return i, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
	}
}

// CancelBatch cancels all jobs of a batch that have not ended. It returns before they
// have ended; use WaitBatch to wait for that.
func (c *Client) CancelBatch(ctx context.Context, id string) (*job.BatchInfo, error) {
	return c.batch(ctx, call{method: http.MethodPost, path: batchPath(id, "/cancel")}, nil)
}

// ListBatches returns a page of batches ordered by their last change of state, oldest
// first unless f.Newest is set. The payloads of callbacks are left out.
func (c *Client) ListBatches(ctx context.Context, f job.BatchFilter) (job.BatchPage, error) {
	var q query
	q.text("state", words(f.States))
	if f.Newest {
		q.text("order", "newest")
	}
	q.number("limit", int64(f.Limit))
	if f.After > 0 {
		q.text("after", strconv.FormatUint(f.After, 10))
	}
	var p struct {
		Batches []job.BatchInfo `json:"batches"`
		Next    uint64          `json:"next,string"`
	}
	err := c.getJSON(ctx, "/v1/batches", q.String(), &p)
	return job.BatchPage(p), err
}

// BatchJobs yields the jobs of a batch in the order of their numbers. If a member is
// a chain, BatchJobs yields the chain's current job, or its last. It stops after an
// error.
func (c *Client) BatchJobs(ctx context.Context, id string) iter.Seq2[job.Info, error] {
	return pages(job.Filter{}, func(f job.Filter) (job.Page, error) {
		var p job.Page
		err := c.getJSON(ctx, batchPath(id, "/jobs"), filterQuery(&f), &p)
		return p, err
	})
}

// untilThere waits until a job that is about to be enqueued can be found.
func (c *Client) untilThere(ctx context.Context, id string) error {
	for n := 0; ; n++ {
		_, err := c.Get(ctx, id)
		if !errors.Is(err, job.ErrNotFound) || n > thereTries {
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
