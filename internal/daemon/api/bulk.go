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

	"github.com/bullpen-run/bullpen/internal/daemon/guard"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// The bounds of a batch. While one is put, as its jobs and as what the queue makes
// of them, another of the same size is read, and a line is begun: together that is
// less than what guard counts for a stream.
const (
	batchLines = 500
	batchBytes = 1 << 20
	// lineRoom is what a line may have beside its payload.
	lineRoom = 128 << 10
	// faultsKept is how many faults of lines are collected before they are sent.
	faultsKept = 8 * mostFaults
)

var errGone = errors.New("the client is gone")

// bulk puts the jobs of a body into a queue, a job a line, and answers a line for
// each while the body still comes.
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

// serve puts the lines of a body and answers a line for each.
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

// intake is what has been read of a bulk and not been taken.
type intake struct {
	reading sync.WaitGroup
	ready   chan struct{} // has room for one: there is something
	room    chan struct{} // has room for one: something was taken

	mu      sync.Mutex
	lines   []bulkLine // guarded by mu
	bytes   int        // of lines; guarded by mu
	err     error      // why no more come; guarded by mu
	stopped bool       // nobody takes any more; guarded by mu
}

// bulkLine is one line as it was read.
type bulkLine struct {
	number int
	text   []byte
	err    error // why it cannot be a job
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
			continue // an empty line is none
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

// add waits for room; false says that nobody takes any more.
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

// next takes all that was read, and waits for the first. io.EOF says that there
// is no more.
func (n *intake) next(ctx context.Context) ([]bulkLine, error) {
	for {
		n.mu.Lock()
		lines, err := n.lines, n.err
		n.lines, n.bytes = nil, 0
		n.mu.Unlock()
		signal(n.room)
		// What was read before the client went is not put.
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

// stop ends the reading, which may wait for a client that sends nothing.
func (n *intake) stop(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	n.stopped = true
	over := n.err != nil
	n.mu.Unlock()
	signal(n.room)
	if !over {
		guard.Interrupt(w, r)
	}
	n.reading.Wait()
}

// bulkRun puts the batches of one request.
type bulkRun struct {
	api    *API
	pool   string
	stream *stream
	jobs   []job.Job
	of     []int           // the lines of jobs
	keys   map[string]bool // of jobs
	trace  trace           // of the request
	known  []string        // the fields that a line may have

	enqueues func(context.Context, []job.Job) ([]job.Ref, error)
	// Of members of a batch: which one the first of jobs is. A line that is none
	// leaves a gap.
	numbered bool
	number   int
}

// put puts a batch and writes an answer for each line. Of jobs with the same key
// the first is put before the next, so that it is the one that stays. The error
// says that nobody reads the answers any more.
func (b *bulkRun) put(ctx context.Context, lines []bulkLine) error {
	answers := make([]lineAnswer, len(lines))
	first, faults := 0, 0 // of what is not answered
	for i := range lines {
		job, p := b.job(&lines[i])
		lines[i].text = nil // the job has what it needs of it
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

// answer sends the answers for some lines.
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

// enqueue puts what was collected.
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
			answers[i].problem = problem.New(problem.BadRequest, "it was not put because of another job that came with it: send it again.")
		}
	}
	clear(b.jobs)
	clear(b.keys)
	b.jobs, b.of = b.jobs[:0], b.of[:0]
}

// lineAnswer is what became of a line.
type lineAnswer struct {
	ref     job.Ref
	problem *problem.Problem
}

// job makes a job of a line.
func (b *bulkRun) job(l *bulkLine) (job.Job, *problem.Problem) {
	if b.api.stopping() {
		return job.Job{}, errStops()
	}
	if l.err != nil {
		return job.Job{}, problem.New(problem.TooLarge, "The line is longer than the queue's largest payload (queue.max_payload) with what comes along: put the data elsewhere and its name into the payload.")
	}
	o, p := readLine(l.text, b.known, b.api.config.MaxPayload, time.Now())
	if p != nil {
		return job.Job{}, p
	}
	o.addTrace(b.trace)
	if o.job.Queue == "" && b.pool == "" {
		return job.Job{}, problem.New(problem.BadRequest, "it names no pool: give it the field pool, or the request the parameter pool.")
	}
	j, err := b.api.complete(b.pool, o.job)
	if err != nil {
		return job.Job{}, problemOf(err)
	}
	// Of jobs that are put together one that is refused would hold up the others.
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

// bulkReasons are why some jobs of a batch were not enqueued, by their index.
type bulkReasons struct {
	byIndex map[int]error
	all     error // of an error that names no job
}

// of returns why a job was not enqueued.
func (r bulkReasons) of(i int) error {
	if err := r.byIndex[i]; err != nil {
		return err
	}
	return r.all
}

// eachReason takes the error of EnqueueAll apart, of which each part begins with
// "job 3: ".
func eachReason(err error) bulkReasons {
	if err == nil {
		return bulkReasons{}
	}
	many, ok := err.(interface{ Unwrap() []error }) // EnqueueAll joins what it returns
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
