package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"
	"unicode/utf8"
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
func (c *Client) EnqueueAll(ctx context.Context, pool string, jobs []Job) ([]Ref, error) {
	refs, errs, failed := make([]Ref, 0, len(jobs)), make([]error, 0, len(jobs)), false
	all := func(yield func(Job) bool) {
		for i := range jobs {
			if !yield(jobs[i]) {
				return
			}
		}
	}
	for ref, err := range c.EnqueueSeq(ctx, pool, all) {
		refs, errs = append(refs, ref), append(errs, err)
		failed = failed || err != nil
	}
	if failed {
		return refs, &BulkError{errs}
	}
	return refs, nil
}

// EnqueueSeq stores the jobs of a sequence of any length. For each job it yields, in
// order, a Ref or an error as from Enqueue. Up to 500 jobs are sent together, so a
// job waits until its batch is full or the sequence ends. If the consumer leaves the
// loop early, jobs that were read from the sequence but not yielded may have been
// enqueued.
//
// Key, Task and Meta must be UTF-8; Payload need not be. Parent and Pool are ignored.
func (c *Client) EnqueueSeq(ctx context.Context, pool string, jobs iter.Seq[Job]) iter.Seq2[Ref, error] {
	return func(yield func(Ref, error) bool) {
		b := c.newBatch(pool)
		left := false
		for j := range jobs {
			b.add(j)
			if len(b.entries) < batchJobs && b.size < batchBytes {
				continue
			}
			if left = !b.flush(ctx, yield); left {
				break
			}
		}
		if !left {
			b.flush(ctx, yield)
		}
	}
}

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
	q.text("pool", b.pool)
	return call{method: http.MethodPost, path: batchPath(b.members, "/jobs"), query: q.String()}
}

// bulkEntry is one job and its result.
type bulkEntry struct {
	line  []byte
	keyed bool
	known bool
	doubt bool // an earlier try may have succeeded
	ref   Ref
	err   error
}

func (c *Client) newBatch(pool string) *batch { return &batch{client: c, pool: pool} }

func (b *batch) add(j Job) {
	if j.Key == "" && b.client.config.Keys && b.members == "" {
		j.Key = rand.Text()
	}
	if b.members == "" {
		j.Pool = "" // the bulk's pool applies
	}
	e := bulkEntry{keyed: j.Key != "" || b.members != ""}
	if e.line, e.err = encodeBulk(&j); e.err != nil {
		e.known = true
	}
	b.size += len(e.line)
	b.entries = append(b.entries, e)
}

// flush enqueues the added jobs and yields their results. It returns false if the
// consumer left the loop.
func (b *batch) flush(ctx context.Context, yield func(Ref, error) bool) bool {
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
			e = &Error{Cause: causeUnconfirmed, Detail: "the answer to a bulk ends early", Err: err}
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
			b.entries[i].doubt = b.entries[i].doubt || e.uncertain()
		}
	}
}

// fail records that a job was not, or may not have been, enqueued.
func (b *bulkEntry) fail(e *Error) { b.known, b.err = true, enqueueError(e.doubted(b.doubt)) }

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
	err = readBulk(limited, func(ref Ref, err error) bool {
		if at == len(open) {
			return false
		}
		entry := &b.entries[open[at]]
		ref.Pool = b.pool
		if at++; err != nil {
			ref = Ref{}
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
func readBulk(r io.Reader, each func(Ref, error) bool) error {
	lines := json.NewDecoder(bufio.NewReader(r))
	for {
		var line struct {
			Ref

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
		return &Error{Cause: causeAnswer, Detail: "the answer to a bulk has an error that is no problem", Err: err}
	}
	return enqueueError(readProblem(p.Status, nil, text))
}

// wireJob is a line of a bulk, or a job of a chain or a batch, in JSON.
type wireJob struct {
	Pool       string            `json:"pool,omitempty"`
	Task       string            `json:"task,omitempty"`
	Payload    string            `json:"payload,omitempty"`
	Base64     string            `json:"payload_base64,omitempty"`
	Key        string            `json:"key,omitempty"`
	Group      string            `json:"group,omitempty"`
	Priority   Priority          `json:"priority,omitempty"`
	Delay      string            `json:"delay,omitempty"`
	At         *time.Time        `json:"at,omitempty"`
	Deadline   *time.Time        `json:"deadline,omitempty"`
	Timeout    string            `json:"timeout,omitempty"`
	Memory     int64             `json:"memory,omitempty"`
	CPU        float64           `json:"cpu,omitempty"`
	Output     int               `json:"output,omitempty"`
	Attempts   int               `json:"attempts,omitempty"`
	Crashes    int               `json:"crashes,omitempty"`
	Backoff    string            `json:"backoff,omitempty"`
	MaxBackoff string            `json:"max_backoff,omitempty"`
	Idempotent bool              `json:"idempotent,omitempty"`
	Compensate string            `json:"compensate,omitempty"`
	Bury       string            `json:"bury,omitempty"`
	Meta       map[string]string `json:"meta,omitempty"`
	Then       []wireJob         `json:"then,omitempty"`
}

// encodeBulk encodes a job as a line of a bulk.
func encodeBulk(j *Job) ([]byte, error) {
	w, err := wireOf(j)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(&w)
	if err != nil {
		return nil, &Error{Cause: "bad-request", Detail: "the job cannot be written as JSON: look at its numbers and times", Err: err}
	}
	return append(line, '\n'), nil
}

func wireOf(j *Job) (wireJob, error) {
	sound := utf8.ValidString(j.Task) && utf8.ValidString(j.Key) && utf8.ValidString(j.Group) && utf8.ValidString(j.Compensate) && utf8.ValidString(j.Bury)
	for key, value := range j.Meta {
		sound = sound && utf8.ValidString(key) && utf8.ValidString(value)
	}
	if !sound {
		return wireJob{}, &Error{Cause: "bad-request", Detail: "Task, Key, Group, Compensate, Bury and Meta of a job in a bulk must be UTF-8: use Enqueue, or put the bytes into Payload"}
	}
	w := wireJob{
		Pool: j.Pool, Task: j.Task, Key: j.Key, Group: j.Group, Priority: j.Priority, Delay: durationText(j.Delay), At: timeOrNil(j.At), Deadline: timeOrNil(j.Deadline),
		Timeout: durationText(j.Limits.Timeout), Memory: j.Limits.Memory, CPU: j.Limits.CPU, Output: j.Limits.Output,
		Attempts: j.Attempts, Crashes: j.Crashes, Backoff: durationText(j.Backoff), MaxBackoff: durationText(j.MaxBackoff),
		Idempotent: j.Idempotent, Compensate: j.Compensate, Bury: j.Bury, Meta: j.Meta,
	}
	if utf8.Valid(j.Payload) {
		w.Payload = string(j.Payload)
	} else {
		w.Base64 = base64.StdEncoding.EncodeToString(j.Payload)
	}
	for i := range j.Then {
		l, err := wireOf(&j.Then[i])
		if err != nil {
			return wireJob{}, err
		}
		w.Then = append(w.Then, l)
	}
	return w, nil
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
