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
)

// A batch of jobs travels when it has so many, or so many bytes, or when no line
// came for a moment: jobs that come slowly do not wait for each other.
const (
	batchJobs  = 500
	batchBytes = 4 << 20
	batchPause = 20 * time.Millisecond
)

// mostFaults is how many refused lines are told one by one.
const mostFaults = 20

// bulkLine is one line of the input of --bulk.
type bulkLine struct {
	number int64
	job    client.Job
	err    error // the line is no job
}

// bulk submits a job for each line of the input.
type bulk struct {
	*submission
	client *client.Client
	pool   string

	next                                         int64 // the first line that was not submitted
	accepted, existing, refused, unknown, unsent int64

	stop   error // what the next lines would not survive either; nil so far
	behind int   // lines of text output that are empty, and not written yet
}

// submitAll submits a job for each line of standard input, and tells what became
// of each in their order.
func (s *submission) submitAll(ctx context.Context, c *client.Client, pool string) error {
	b := &bulk{submission: s, client: c, pool: pool, next: 1}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	lines, failed := make(chan bulkLine, batchJobs), make(chan error, 1)
	go func() { // ends with the input, or when the command is over and a read returns
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
		fmt.Sprintf("%d accepted", b.accepted), countOf(b.existing, "there already"), countOf(b.refused, "refused"), countOf(b.unknown, "not confirmed"), countOf(b.unsent, "not submitted"))
	return text
}

func countOf(n int64, what string) string { return count(uint64(n), what) }

// readLines makes jobs of the lines of standard input.
func (s *submission) readLines(ctx context.Context, to chan<- bulkLine) error {
	in := newSplitter(s.stdin, '\n', defaultMaxLine)
	for number := int64(1); ; {
		records, err := in.next()
		for _, r := range records {
			line := bulkLine{number: number, job: s.job}
			number++
			if s.ndjson && r.size == 0 && len(bytes.TrimSpace(r.text)) == 0 {
				continue // between two objects, or behind the last
			}
			switch {
			case r.size > 0:
				line.err = lineFault{fmt.Errorf("the line has %s: %s are the most; use bullpen submit @FILE", sizeText(r.size), sizeText(defaultMaxLine))}
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

// all submits what comes, batch by batch.
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

// gather waits for a line and takes those that follow at once.
func gather(ctx context.Context, lines <-chan bulkLine) []bulkLine {
	var batch []bulkLine
	var pause <-chan time.Time // nil until there is a line
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

// put submits a batch. Its error says that the next one would fare no better.
func (b *bulk) put(ctx context.Context, batch []bulkLine) error {
	var jobs []client.Job
	for i := range batch {
		if batch[i].err == nil {
			jobs = append(jobs, batch[i].job)
		}
	}
	var refs []client.Ref
	var errs []error
	if len(jobs) > 0 {
		var err error
		refs, err = b.client.EnqueueAll(ctx, b.pool, jobs)
		if all, ok := errors.AsType[*client.BulkError](err); ok {
			errs = all.Errs
		} else if err != nil {
			return ofPool(b.pool, err)
		}
	}
	at := 0
	for i := range batch {
		line := &batch[i]
		var ref client.Ref
		err := line.err
		if err == nil {
			ref = refs[at]
			if errs != nil {
				err = errs[at]
			}
			at++
		}
		if err := b.told(ctx, line.number, ref, err); err != nil {
			return err
		}
	}
	return b.stop
}

// told notes and writes what became of one line. Its error is of the writing.
func (b *bulk) told(ctx context.Context, number int64, ref client.Ref, err error) error {
	switch {
	case err == nil && ref.Existing:
		b.existing++
	case err == nil:
		b.accepted++
	case errors.Is(err, client.ErrUnconfirmed):
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
		Line  int64  `json:"line"`
		ID    string `json:"id,omitempty"`
		State string `json:"state,omitempty"`
		// Existing says that the job was there before.
		Existing bool   `json:"existing,omitempty"`
		Error    string `json:"error,omitempty"`
	}{Line: number, ID: ref.ID, State: string(ref.State), Existing: ref.Existing}
	if err != nil {
		line.Error = b.why(ctx, err)
	}
	return b.object(line)
}

// text writes the id of a job on a line, or keeps the line empty. Empty lines at
// the end are not written: their jobs were not submitted.
func (b *bulk) text(ref client.Ref) {
	if ref.ID == "" && b.stop != nil {
		b.behind++
		return
	}
	for ; b.behind > 0; b.behind-- {
		b.printf("\n")
	}
	b.printf("%s\n", plain(ref.ID))
}

// wholesale reports whether an error is not about one job: after all the tries of
// the client, the next ones would end in the same way.
func wholesale(err error) bool {
	for _, is := range []error{client.ErrUnknownPool, client.ErrStore, bullpen.ErrClosed, bullpen.ErrOverloaded} {
		if errors.Is(err, is) {
			return true
		}
	}
	return hopeless(err)
}

// why says why a line was refused.
func (b *bulk) why(ctx context.Context, err error) string {
	if _, ok := errors.AsType[*client.Error](err); ok {
		_, text := b.explain(ctx, b.client, ofPool(b.pool, err))
		return withoutLine(text)
	}
	return plain(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// complain tells of the first lines that were refused.
func (b *bulk) complain(ctx context.Context, number int64, err error) {
	switch bad := b.refused + b.unknown; {
	case bad <= mostFaults:
		b.say("line %d: %s", number, b.why(ctx, err))
	case bad == mostFaults+1:
		b.say("more lines are refused, and not told one by one; --json tells all")
	}
}

// lineFault says that a line is no job.
type lineFault struct{ error }

// Unwrap returns the cause.
func (f lineFault) Unwrap() error { return f.error }

func isLineFault(err error) bool {
	_, is := errors.AsType[lineFault](err)
	return is
}

// withoutLine takes off the number of a line that the daemon counted: it has seen
// a part of the lines only.
func withoutLine(text string) string {
	rest, found := strings.CutPrefix(text, "line ")
	number, cause, more := strings.Cut(rest, ": ")
	if found && more && number != "" && strings.Trim(number, "0123456789") == "" {
		return cause
	}
	return text
}
