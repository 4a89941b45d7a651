package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"

	"github.com/bullpen-run/bullpen/job"
)

// A bulk is sent in batches, one request each. This bounds the memory for pending
// jobs, and a lost answer leaves the outcome of at most one batch unknown.
const (
	batchJobs  = 500
	batchBytes = 4 << 20
)

// BulkError reports which jobs of a bulk were not enqueued.
type BulkError struct {
	// Errs has one error for each job, in the order of the jobs; nil if the job was
	// enqueued.
	Errs []error
}

// Error returns the number of failed jobs and the first error.
func (e *BulkError) Error() string {
	n, at := 0, 0
	for i, err := range e.Errs {
		if err != nil {
			if n == 0 {
				at = i
			}
			n++
		}
	}
	if n == 0 {
		return "all jobs were enqueued"
	}
	return fmt.Sprintf("%d of %d jobs were not enqueued, the first is job %d: %v", n, len(e.Errs), at, e.Errs[at])
}

// Unwrap returns the errors that are not nil.
func (e *BulkError) Unwrap() []error {
	var all []error
	for _, err := range e.Errs {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// EnqueueAll stores jobs and returns once the daemon has answered for each of them.
// The refs are in the order of the jobs. If some jobs failed, their refs are empty
// and the error is a [*BulkError]; the other jobs are enqueued all the same.
func (c *Client) EnqueueAll(ctx context.Context, jobs []job.Job) ([]job.Ref, error) {
	refs, errs, failed := make([]job.Ref, 0, len(jobs)), make([]error, 0, len(jobs)), false
	for ref, err := range c.EnqueueSeq(ctx, slices.Values(jobs)) {
		refs, errs = append(refs, ref), append(errs, err)
		failed = failed || err != nil
	}
	if failed {
		return refs, &BulkError{errs}
	}
	return refs, nil
}

// EnqueueSeq stores the jobs of a sequence of any length. For each job it yields, in
// order, a Ref or an error as from Enqueue. Up to 500 jobs of one Queue are sent
// together, so a job waits until its batch is full, the next job has another Queue, or
// the sequence ends. If the consumer leaves the loop early, jobs that were read from the
// sequence but not yielded may have been enqueued.
//
// All texts of a job must be UTF-8; Payload need not be.
func (c *Client) EnqueueSeq(ctx context.Context, jobs iter.Seq[job.Job]) iter.Seq2[job.Ref, error] {
	return func(yield func(job.Ref, error) bool) {
		b := &batch{client: c}
		for j := range jobs {
			pool := poolOf(&j)
			if (pool != b.pool || len(b.entries) >= batchJobs || b.size >= batchBytes) && !b.flush(ctx, yield) {
				return
			}
			b.pool = pool
			j.Queue = "" // the bulk has it
			b.add(&j)
		}
		b.flush(ctx, yield)
	}
}

// poolOf returns the pool that a job goes to.
func poolOf(j *job.Job) string { return cmp.Or(j.Queue, "default") }

// batch holds the jobs of one request.
type batch struct {
	client  *Client
	pool    string
	entries []bulkEntry
	size    int
	// For members of a batch: the batch's id, and the number of the first job.
	members string
	offset  int
}

// request returns the request that enqueues the open jobs, beginning with index
// first.
func (b *batch) request(first int) call {
	if b.members == "" {
		return call{method: http.MethodPost, path: poolPath(b.pool, "/bulk")}
	}
	var q query
	q.number("offset", int64(b.offset+first))
	return call{method: http.MethodPost, path: batchPath(b.members, "/jobs"), query: q.String()}
}

// bulkEntry is one job and its result.
type bulkEntry struct {
	line   []byte
	keyed  bool
	known  bool
	unsure bool // an earlier try may have succeeded
	queue  string
	ref    job.Ref
	err    error
}

func (b *batch) add(j *job.Job) {
	if j.Key == "" && b.client.config.Keys && b.members == "" {
		j.Key = rand.Text()
	}
	e := bulkEntry{queue: cmp.Or(j.Queue, b.pool), keyed: j.Key != "" || b.members != ""}
	if e.line, e.err = encodeBulk(j); e.err != nil {
		e.known = true
	}
	b.size += len(e.line)
	b.entries = append(b.entries, e)
}

// flush enqueues the added jobs and yields their results. It returns false if the
// consumer left the loop.
func (b *batch) flush(ctx context.Context, yield func(job.Ref, error) bool) bool {
	b.enqueue(ctx)
	entries := b.entries
	b.entries, b.size = nil, 0
	for i := range entries {
		if !yield(entries[i].ref, entries[i].err) {
			return false
		}
	}
	return true
}

// enqueue sends the jobs until the result of each is known, and retries where that is
// safe.
func (b *batch) enqueue(ctx context.Context) {
	for n := 0; ; n++ {
		open := b.open()
		if len(open) == 0 {
			return
		}
		err := b.once(ctx, open)
		open = b.open()
		if len(open) == 0 {
			return
		}
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Cause: causeUnconfirmed, Detail: "the answer to a bulk ended early", Err: err}
		}
		again := n < b.client.config.Retries
		left := 0
		for _, i := range open {
			if again && e.repeatable(b.entries[i].keyed) {
				left++
			} else {
				b.entries[i].fail(e)
			}
		}
		if left == 0 {
			return
		}
		ended := b.client.pause(ctx, nil, n, e) != nil
		for _, i := range b.open() {
			if ended {
				b.entries[i].fail(e)
			}
			b.entries[i].unsure = b.entries[i].unsure || e.uncertain()
		}
	}
}

// fail records that a job was not, or may not have been, enqueued.
func (b *bulkEntry) fail(e *Error) { b.known, b.err = true, enqueueError(e.asUnsure(b.unsure)) }

// open returns the indexes of the jobs whose result is not known.
func (b *batch) open() []int {
	var all []int
	for i := range b.entries {
		if !b.entries[i].known {
			all = append(all, i)
		}
	}
	return all
}

// once sends one request and records the result of each job that the answer covers.
func (b *batch) once(ctx context.Context, open []int) error {
	var text bytes.Buffer
	for _, i := range open {
		text.Write(b.entries[i].line)
	}
	r := b.request(open[0])
	r.body = newSource(text.Bytes())
	defer r.body.release()
	r.header = b.client.header()
	r.header["Content-Type"] = []string{"application/x-ndjson"}
	bounded, cancel := context.WithTimeoutCause(ctx, b.client.config.Timeout, errNoAnswer)
	defer cancel()
	sent := &sending{}
	response, err := b.client.send(bounded, r, sent)
	if err != nil {
		return broken(ctx, bounded, sent, err)
	}
	if response.StatusCode != http.StatusOK {
		body, err := readBody(response, b.client.config.MaxResult)
		if err != nil {
			return broken(ctx, bounded, sent, err)
		}
		return readProblem(response.StatusCode, response.Header, body)
	}
	defer response.Body.Close()
	limited := io.LimitReader(response.Body, b.client.config.MaxResult)
	at := 0
	err = readBulk(limited, func(ref job.Ref, err error) bool {
		if at == len(open) {
			return false
		}
		entry := &b.entries[open[at]]
		if at++; err != nil {
			ref = job.Ref{}
		} else {
			ref.Queue = entry.queue
		}
		entry.known, entry.ref, entry.err = true, ref, err
		return true
	})
	if err == nil && at < len(open) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return broken(ctx, bounded, sent, err)
	}
	return nil
}

// readBulk reads the answer to a bulk, one line for each job. It stops early when
// each returns false.
func readBulk(r io.Reader, each func(job.Ref, error) bool) error {
	lines := json.NewDecoder(bufio.NewReader(r))
	for {
		var line struct {
			job.Ref

			Error json.RawMessage `json:"error"`
		}
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case len(line.Error) > 0 && string(line.Error) != "null":
			err = lineError(line.Error)
		case line.ID == "":
			err = &Error{Cause: causeUnconfirmed, Detail: "the answer to a bulk has a line without an id and without an error"}
		}
		if !each(line.Ref, err) {
			return nil
		}
	}
}

// lineError decodes the problem of one job.
func lineError(text json.RawMessage) error {
	var p struct {
		Status int `json:"status"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return &Error{Cause: causeAnswer, Detail: "the answer to a bulk has an error that is not a problem document", Err: err}
	}
	return enqueueError(readProblem(p.Status, nil, text))
}

// encodeBulk encodes a job as a line of a bulk.
func encodeBulk(j *job.Job) ([]byte, error) {
	line, err := encodeJob(j)
	if err != nil {
		return nil, err
	}
	return append(line, '\n'), nil
}

// encodeJob encodes a job as JSON.
func encodeJob(j *job.Job) ([]byte, error) {
	if err := checkRetry(j); err != nil {
		return nil, err
	}
	text, err := j.MarshalJSON()
	if err != nil {
		return nil, &Error{Cause: causeBadRequest, Detail: "the job cannot be written as JSON", Err: err}
	}
	return text, nil
}

// checkRetry refuses what the API has no field for.
func checkRetry(j *job.Job) error {
	for i := range j.Then {
		if err := checkRetry(&j.Then[i]); err != nil {
			return err
		}
	}
	if j.Retry.Nodes != 0 || j.Retry.On != nil {
		return &Error{Cause: causeBadRequest, Detail: "Retry.Nodes and Retry.On of a job are not part of the daemon's API: leave them out, and set them for the pool in its configuration"}
	}
	return nil
}
