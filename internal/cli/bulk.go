package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// A batch is sent when it has this many jobs or bytes, or when no line came for a
// moment: slow input is not held up until a batch is full.
const (
	batchJobs  = 500
	batchBytes = 4 << 20
	batchPause = 20 * time.Millisecond
)

// mostFaults is how many refused lines are reported one by one.
const mostFaults = 20

// bulkLine is one line of the input of --bulk.
type bulkLine struct {
	number int64
	job    job.Job
	err    error // why the line is not a job
}

// bulk submits a job for each line of the input.
type bulk struct {
	*submission
	client *client.Client
	pool   string

	next                                         int64 // the first line not yet submitted
	accepted, existing, refused, unknown, unsent int64

	stop   error // an error that would also affect all further lines; nil so far
	behind int   // empty lines of text output not written yet
}

// submitAll submits a job for each line of standard input, and reports the results in
// order.
func (s *submission) submitAll(ctx context.Context, c *client.Client, pool string) error {
	b := &bulk{submission: s, client: c, pool: pool, next: 1}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	lines, failed := make(chan bulkLine, batchJobs), make(chan error, 1)
	go func() { // ends with the input; after the command is over, when its read returns
		defer close(lines)
		failed <- s.readLines(reading, lines)
	}()
	err := b.all(ctx, lines)
	if err == nil {
		if err = <-failed; err != nil {
			err = usageError{err}
		}
	}
	if flushed := s.flush(); flushed != nil {
		return flushed
	}
	s.say("%s", b.summary())
	switch {
	case ctx.Err() != nil:
		s.say("interrupted: the lines from %d on were not submitted", b.next)
		return status(exitInterrupted)
	case err != nil:
		return err
	case b.refused+b.unknown > 0:
		return status(exitFailed)
	}
	return nil
}

func (b *bulk) summary() string {
	text := plural(b.accepted+b.existing+b.refused+b.unknown+b.unsent, "job") + ": " + phrase(
		fmt.Sprintf("%d accepted", b.accepted), countOf(b.existing, "already there"), countOf(b.refused, "refused"), countOf(b.unknown, "not confirmed"), countOf(b.unsent, "not submitted"))
	return text
}

func countOf(n int64, what string) string { return count(uint64(n), what) }

// readLines decodes jobs from the lines of standard input.
func (s *submission) readLines(ctx context.Context, to chan<- bulkLine) error {
	in := newSplitter(s.stdin, '\n', defaultMaxLine)
	for number := int64(1); ; {
		records, err := in.next()
		for _, r := range records {
			line := bulkLine{number: number, job: s.job}
			number++
			if s.ndjson && r.size == 0 && len(bytes.TrimSpace(r.text)) == 0 {
				continue // between two objects, or after the last
			}
			switch {
			case r.size > 0:
				line.err = lineFault{fmt.Errorf("the line has %s, more than %s: use bullpen submit @FILE", sizeText(r.size), sizeText(defaultMaxLine))}
			case s.ndjson:
				var err error
				if line.job, err = decodeJob(r.text, s.job, s.now()); err != nil {
					line.err = lineFault{err}
				}
			default:
				line.job.Payload = r.text
			}
			select {
			case to <- line:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// all submits jobs as they arrive, batch by batch.
func (b *bulk) all(ctx context.Context, lines <-chan bulkLine) error {
	for {
		batch := gather(ctx, lines)
		if len(batch) == 0 {
			return ctx.Err()
		}
		if err := b.put(ctx, batch); err != nil {
			return err
		}
		if err := b.flush(); err != nil {
			return err
		}
	}
}

// gather waits for a line and collects those that follow immediately.
func gather(ctx context.Context, lines <-chan bulkLine) []bulkLine {
	var batch []bulkLine
	var pause <-chan time.Time // nil before the first line
	size := 0
	for len(batch) < batchJobs && size < batchBytes {
		select {
		case line, open := <-lines:
			if !open {
				return batch
			}
			batch = append(batch, line)
			size += len(line.job.Payload)
			if pause == nil {
				timer := time.NewTimer(batchPause)
				defer timer.Stop()
				pause = timer.C
			}
		case <-pause:
			return batch
		case <-ctx.Done():
			return nil
		}
	}
	return batch
}

// put submits a batch. It returns an error if further batches would fail too.
func (b *bulk) put(ctx context.Context, batch []bulkLine) error {
	var jobs []job.Job
	for i := range batch {
		if batch[i].err == nil {
			j := batch[i].job
			j.Queue = b.pool
			jobs = append(jobs, j)
		}
	}
	var refs []job.Ref
	var errs []error
	if len(jobs) > 0 {
		var err error
		refs, err = b.client.EnqueueAll(ctx, jobs)
		if all, ok := errors.AsType[*client.BulkError](err); ok {
			errs = all.Errs
		} else if err != nil {
			return ofPool(b.pool, err)
		}
	}
	at := 0
	for i := range batch {
		line := &batch[i]
		var ref job.Ref
		err := line.err
		if err == nil {
			ref = refs[at]
			if errs != nil {
				err = errs[at]
			}
			at++
		}
		if err := b.record(ctx, line.number, ref, err); err != nil {
			return err
		}
	}
	return b.stop
}

// record counts and writes the result of one line. It returns errors of writing.
func (b *bulk) record(ctx context.Context, number int64, ref job.Ref, err error) error {
	switch {
	case err == nil && ref.Existing:
		b.existing++
	case err == nil:
		b.accepted++
	case errors.Is(err, job.ErrUnconfirmed):
		b.unknown++
	case !isLineFault(err) && (ctx.Err() != nil || wholesale(err)):
		b.unsent++
		if b.stop == nil {
			b.stop = ofPool(b.pool, err)
		}
	default:
		b.refused++
	}
	if b.stop == nil {
		b.next = number + 1
		if err != nil {
			b.complain(ctx, number, err)
		}
	}
	if !b.asJSON {
		b.text(ref)
		return nil
	}
	line := struct {
		Line     int64  `json:"line"`
		ID       string `json:"id,omitempty"`
		State    string `json:"state,omitempty"`
		Existing bool   `json:"existing,omitempty"`
		Error    string `json:"error,omitempty"`
	}{Line: number, ID: ref.ID, Existing: ref.Existing}
	if err != nil {
		line.Error = b.why(ctx, err)
	} else {
		line.State = ref.State.String()
	}
	return b.object(line)
}

// text writes the id of a job on a line, or an empty line. It leaves out empty lines
// at the end: their jobs were not submitted.
func (b *bulk) text(ref job.Ref) {
	if ref.ID == "" && b.stop != nil {
		b.behind++
		return
	}
	for ; b.behind > 0; b.behind-- {
		b.printf("\n")
	}
	b.printf("%s\n", plain(ref.ID))
}

// wholesale reports whether an error is not about one job: the client has already
// retried, so further jobs would fail in the same way.
func wholesale(err error) bool {
	for _, is := range []error{client.ErrUnknownPool, job.ErrStore, bullpen.ErrClosed, bullpen.ErrOverloaded} {
		if errors.Is(err, is) {
			return true
		}
	}
	return hopeless(err)
}

// why returns why a line was refused.
func (b *bulk) why(ctx context.Context, err error) string {
	if _, ok := errors.AsType[*client.Error](err); ok {
		_, text := b.explain(ctx, b.client, ofPool(b.pool, err))
		return withoutLine(text)
	}
	return plain(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// complain reports a refused line, up to mostFaults of them.
func (b *bulk) complain(ctx context.Context, number int64, err error) {
	switch bad := b.refused + b.unknown; {
	case bad <= mostFaults:
		b.say("line %d: %s", number, b.why(ctx, err))
	case bad == mostFaults+1:
		b.say("more lines were refused; --json prints all of them")
	}
}

// lineFault is the error of a line that is not a job.
type lineFault struct{ error }

// Unwrap returns the cause.
func (f lineFault) Unwrap() error { return f.error }

func isLineFault(err error) bool {
	_, is := errors.AsType[lineFault](err)
	return is
}

// withoutLine removes the line number that the daemon reported: it counts only the
// lines that were sent to it.
func withoutLine(text string) string {
	rest, found := strings.CutPrefix(text, "line ")
	number, cause, more := strings.Cut(rest, ": ")
	if found && more && number != "" && strings.Trim(number, "0123456789") == "" {
		return cause
	}
	return text
}
