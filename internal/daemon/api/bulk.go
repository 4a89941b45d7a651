package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// The bounds of a batch. While one batch is being stored, both as read and as the
// queue's records, another of the same size is read, and one more line is begun.
// Together that stays below what package access counts for a stream.
const (
	batchLines = 500
	batchBytes = 1 << 20
	// lineRoom is the room on a line for more than its payload, in bytes.
	lineRoom = 128 << 10
	// faultsKept is how many faults of lines are collected before they are sent.
	faultsKept = 8 * mostFaults
)

var errGone = errors.New("the client is gone")

// bulk enqueues the jobs of a body, one per line, and answers with one line for each
// while the body is still arriving.
func (a *API) bulk(w http.ResponseWriter, r *http.Request, _ query) *problem.Problem {
	if a.stopping() {
		return errStops()
	}
	pool := r.PathValue("pool")
	if _, err := a.backend.Complete(pool, job.Job{Queue: pool}); err != nil {
		return problemOf(err)
	}
	return a.bulkRun(pool).serve(w, r)
}

func (a *API) bulkRun(pool string) *bulkRun {
	return &bulkRun{api: a, pool: pool, known: lineFields, keys: map[string]bool{}, enqueues: a.backend.Queue().EnqueueAll}
}

// serve enqueues the lines of a body and writes one answer line for each.
func (b *bulkRun) serve(w http.ResponseWriter, r *http.Request) *problem.Problem {
	a := b.api
	if p := checkType(r, linesType, "application/ndjson", "application/jsonl", "application/jsonlines"); p != nil {
		return p
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	s := a.stream(w, linesType)
	defer s.close()
	s.control.EnableFullDuplex() //nolint:errcheck // a connection that cannot do so answers at the end
	in := newIntake()
	in.reading.Go(func() { // ends with the body; stop waits for it
		in.read(r.Body, 4*(a.config.MaxPayload/3+1)+lineRoom)
	})
	defer in.stop(w, r)
	b.trace = readTrace(r.Header)
	if b.stream = s; s.flush() != nil {
		return nil
	}
	for {
		lines, err := in.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			cancel(errGone)
			return nil
		}
		if b.put(ctx, lines) != nil {
			return nil
		}
	}
}

// intake holds the lines of a bulk that were read and not yet taken.
type intake struct {
	reading sync.WaitGroup
	ready   chan struct{} // capacity 1: signals that there are lines
	room    chan struct{} // capacity 1: signals that lines were taken

	mu      sync.Mutex
	lines   []bulkLine // guarded by mu
	bytes   int        // size of lines; guarded by mu
	err     error      // why reading ended; guarded by mu
	stopped bool       // the consumer takes no more lines; guarded by mu
}

// bulkLine is a line as read.
type bulkLine struct {
	number int
	text   []byte
	err    error // why the line cannot be a job
}

func newIntake() *intake {
	return &intake{ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// read reads lines until the body ends, as far ahead as there is room.
func (n *intake) read(body io.Reader, longest int) {
	lines := newLineReader(body, longest)
	for number := 1; ; number++ {
		text, err := lines.next()
		if err != nil && !errors.Is(err, errLongLine) {
			n.mu.Lock()
			n.err = err
			n.mu.Unlock()
			signal(n.ready)
			return
		}
		if err == nil && len(text) == 0 {
			continue // skip an empty line
		}
		if !n.add(bulkLine{number, text, err}) {
			return
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// add adds a line, waiting for room. It returns false if the consumer takes no more.
func (n *intake) add(l bulkLine) bool {
	for {
		n.mu.Lock()
		if n.stopped {
			n.mu.Unlock()
			return false
		}
		if len(n.lines) == 0 || len(n.lines) < batchLines && n.bytes+len(l.text) <= batchBytes {
			n.lines = append(n.lines, l)
			n.bytes += len(l.text)
			n.mu.Unlock()
			signal(n.ready)
			return true
		}
		n.mu.Unlock()
		<-n.room
	}
}

// next returns all lines read so far, waiting for the first. io.EOF means that there
// are no more.
func (n *intake) next(ctx context.Context) ([]bulkLine, error) {
	for {
		n.mu.Lock()
		lines, err := n.lines, n.err
		n.lines, n.bytes = nil, 0
		n.mu.Unlock()
		signal(n.room)
		// Drop lines that were read before the client disconnected.
		if err != nil && (len(lines) == 0 || !errors.Is(err, io.EOF)) {
			return nil, err
		}
		if len(lines) > 0 {
			return lines, nil
		}
		select {
		case <-n.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// stop stops the reader, even if it waits for a client that sends nothing.
func (n *intake) stop(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.stopped = true
	over := n.err != nil
	n.mu.Unlock()
	signal(n.room)
	if !over {
		access.Interrupt(w, r)
	}
	n.reading.Wait()
}

// bulkRun enqueues the batches of one request.
type bulkRun struct {
	api    *API
	pool   string
	stream *stream
	jobs   []job.Job
	of     []int           // line index of each job
	keys   map[string]bool // keys of jobs
	trace  trace           // trace of the request
	known  []string        // the fields that a line may have

	enqueues func(context.Context, []job.Job) ([]job.Ref, error)
	// For members of a batch: the number of the first of jobs. A line without a job
	// leaves a gap.
	numbered bool
	number   int
}

// put enqueues a batch and writes an answer for each line. If jobs share a key, put
// enqueues the first before it goes on, so that the first is the one that is kept. It
// returns an error if the client no longer reads the answers.
func (b *bulkRun) put(ctx context.Context, lines []bulkLine) error {
	answers := make([]lineAnswer, len(lines))
	first, faults := 0, 0 // first line not yet answered
	for i := range lines {
		job, p := b.job(&lines[i])
		lines[i].text = nil // free the text; the job has what it needs
		if answers[i].problem = p; p != nil {
			if b.numbered {
				b.enqueue(ctx, answers)
				b.number++
			}
			if faults += len(p.Faults); faults >= faultsKept {
				b.enqueue(ctx, answers)
				if err := b.answer(lines[first:i+1], answers[first:i+1]); err != nil {
					return err
				}
				first, faults = i+1, 0
			}
			continue
		}
		if job.Key != "" {
			if b.keys[job.Key] {
				b.enqueue(ctx, answers)
			}
			b.keys[job.Key] = true
		}
		b.jobs, b.of = append(b.jobs, job), append(b.of, i)
	}
	b.enqueue(ctx, answers)
	return b.answer(lines[first:], answers[first:])
}

// answer writes the answers for some lines.
func (b *bulkRun) answer(lines []bulkLine, answers []lineAnswer) error {
	for i := range answers {
		b.write(&lines[i], &answers[i])
		answers[i] = lineAnswer{}
		if len(b.stream.buffer) >= fullBuffer {
			if err := b.stream.flush(); err != nil {
				return err
			}
		}
	}
	return b.stream.flush()
}

// enqueue enqueues the collected jobs.
func (b *bulkRun) enqueue(ctx context.Context, answers []lineAnswer) {
	if len(b.jobs) == 0 {
		return
	}
	refs, err := b.enqueues(ctx, b.jobs)
	if refs == nil {
		refs = make([]job.Ref, len(b.jobs))
	}
	b.number += len(b.jobs)
	reasons := eachReason(err)
	for k, i := range b.of {
		answers[i].ref = refs[k]
		if e := reasons.of(k); e != nil {
			answers[i].problem = b.api.notStored(refs[k], e)
		} else if refs[k].ID == "" {
			answers[i].problem = problem.New(problem.BadRequest, "it was not enqueued because another job of the same batch failed: send it again.")
		}
	}
	clear(b.jobs)
	clear(b.keys)
	b.jobs, b.of = b.jobs[:0], b.of[:0]
}

// lineAnswer is the result of a line.
type lineAnswer struct {
	ref     job.Ref
	problem *problem.Problem
}

// job converts a line to a job.
func (b *bulkRun) job(l *bulkLine) (job.Job, *problem.Problem) {
	if b.api.stopping() {
		return job.Job{}, errStops()
	}
	if l.err != nil {
		return job.Job{}, problem.New(problem.TooLarge, "The line is longer than the largest payload (queue.max_payload) and the other fields can be: put the data elsewhere and its name into the payload.")
	}
	o, p := readLine(l.text, b.known, b.api.config.MaxPayload, time.Now())
	if p != nil {
		return job.Job{}, p
	}
	o.addTrace(b.trace)
	if o.job.Queue == "" && b.pool == "" {
		return job.Job{}, problem.New(problem.BadRequest, "it names no pool: set its field pool, or the parameter pool of the request.")
	}
	j, err := b.api.complete(b.pool, o.job)
	if err != nil {
		return job.Job{}, problemOf(err)
	}
	// Check each job here: one that EnqueueAll refuses would hold up the others.
	if err := b.api.backend.Queue().Check(j); err != nil {
		return job.Job{}, problemOf(err)
	}
	return j, nil
}

func (b *bulkRun) write(l *bulkLine, a *lineAnswer) {
	s := b.stream
	if a.problem != nil {
		a.problem.Detail = "Line " + strconv.Itoa(l.number) + ": " + a.problem.Detail
		s.buffer = append(append(append(s.buffer, `{"error":`...), a.problem.JSON()...), "}\n"...)
		return
	}
	s.buffer = append(append(append(s.buffer, `{"id":"`...), a.ref.ID...), `","state":"`...)
	s.buffer = append(append(s.buffer, a.ref.State.String()...), '"')
	if a.ref.Existing {
		s.buffer = append(s.buffer, `,"existing":true`...)
	}
	s.buffer = append(s.buffer, "}\n"...)
}

// bulkReasons has the errors of the jobs in a batch that were not enqueued, by index.
type bulkReasons struct {
	byIndex map[int]error
	all     error // an error about no particular job
}

// of returns why job i was not enqueued.
func (r bulkReasons) of(i int) error {
	if err := r.byIndex[i]; err != nil {
		return err
	}
	return r.all
}

// eachReason splits the error of EnqueueAll, whose parts begin with "job 3: ".
func eachReason(err error) bulkReasons {
	if err == nil {
		return bulkReasons{}
	}
	many, ok := err.(interface{ Unwrap() []error }) // EnqueueAll returns joined errors
	if !ok {
		return bulkReasons{all: err}
	}
	r := bulkReasons{byIndex: map[int]error{}}
	for _, e := range many.Unwrap() {
		number, _, found := strings.Cut(strings.TrimPrefix(e.Error(), "job "), ":")
		i, bad := strconv.Atoi(number)
		if !found || bad != nil {
			r.all = err
			continue
		}
		r.byIndex[i] = e
	}
	return r
}
