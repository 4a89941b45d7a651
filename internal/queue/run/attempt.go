package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
	"github.com/bullpen-run/bullpen/internal/queue/group"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// attemptState is the stage of an attempt on this node.
type attemptState uint8

const (
	// attemptTaken: the store delivered the job; what is stored of it is looked up.
	attemptTaken attemptState = iota
	// attemptHanded: the executor has it.
	attemptHanded
	// attemptStoring: the job has ended, and the result is being stored. It holds no
	// worker.
	attemptStoring
	// attemptAnswered: the delivery was answered, and this node no longer holds the job.
	attemptAnswered
)

var attemptStates = lifecycle.Table[attemptState]{
	Name: "job in the hands of a node",
	States: map[attemptState]string{
		attemptTaken: "taken", attemptHanded: "handed", attemptStoring: "storing", attemptAnswered: "answered",
	},
	Moves: map[attemptState][]attemptState{
		attemptTaken:    {attemptHanded, attemptStoring, attemptAnswered},
		attemptHanded:   {attemptStoring, attemptAnswered},
		attemptStoring:  {attemptAnswered},
		attemptAnswered: nil,
	},
}

// attempt is a job on this node, from its delivery to the answer.
type attempt struct {
	queue    *Node
	runner   *runner
	delivery engine.Delivery
	state    lifecycle.Machine[attemptState]
	taken    time.Time

	// These fields are written before the attempt is shared between goroutines.
	stored *record.Job
	policy job.Retry
	ctx    context.Context //nolint:containedctx // of the job, which outlives the call that takes it
	stop   context.CancelCauseFunc

	// These fields belong to the goroutine that moves the state: the look-up, then the
	// goroutine of Work, then the end of the job.
	tries  record.Tries
	tried  bool         // its attempts are recorded in the store
	number atomic.Int64 // the number of the attempt, set when the job is handed over
	handed time.Time    // when the job was handed over; written before

	kept     atomic.Pointer[group.Job] // set while a job with a group counts as running; else nil
	seen     observed
	extended atomic.Int64 // when its lease was last renewed, in Unix nanoseconds
	liveSeq  atomic.Uint64
	liveAt   atomic.Int64 // when its progress was last stored
	found    found        // the result of the look-up, written before the job is handed over
}

func (q *Node) newAttempt(r *runner, d engine.Delivery) *attempt {
	a := &attempt{queue: q, runner: r, delivery: d, taken: time.Now()}
	a.seen.queue = q
	a.state.Init(&attemptStates, attemptTaken)
	a.ctx, a.stop = context.WithCancelCause(r.jobs)
	a.extended.Store(a.taken.UnixNano())
	return a
}

// is sets the job of the attempt. It is called once, before the attempt is shared.
func (a *attempt) is(s *record.Job) {
	c, _, _ := record.ParseSubject(a.delivery.Message)
	s.Job.Queue = c.Queue
	s.Job.Priority, _ = job.ParsePriority(c.Priority) // the consumer's name is a valid priority
	a.stored, a.policy = s, s.Job.Retry.Over(a.queue.Config.Retry)
	if s.Job.Deadline.IsZero() {
		return
	}
	stop := a.stop
	var ended context.CancelFunc
	a.ctx, ended = context.WithDeadline(a.ctx, s.Job.Deadline)
	a.stop = func(cause error) { stop(cause); ended() }
}

// task returns the job as the task that the executor gets.
func (a *attempt) task() bullpen.Task {
	j := &a.stored.Job
	a.seen.since, a.seen.due = a.stored.Enqueued, j.At
	if a.tries.Started > 0 {
		a.seen.due = a.tries.RetryAt
		if n := len(a.tries.History); n > 0 {
			a.seen.since = a.tries.History[n-1].Ended
		}
	}
	t := bullpen.Task{ID: a.stored.ID, Name: j.Name, Payload: j.Payload, Meta: j.Meta, Limits: j.Limits, Observer: &a.seen}
	s := a.stored
	if a.tries.Started == 0 && a.tries.Crashes == 0 && s.Parent == "" && s.Schedule == "" && s.Chain.First == "" && s.Batch == "" {
		return t
	}
	t.Meta = make(map[string]string, len(j.Meta)+6)
	maps.Copy(t.Meta, j.Meta)
	t.Meta[record.MetaAttempt] = strconv.Itoa(a.tries.Started + 1)
	if a.tries.CutOff() {
		t.Meta[record.MetaRedelivered] = "true"
	}
	for _, m := range []struct{ key, value string }{{record.MetaParent, s.Parent}, {record.MetaUndoes, s.Undoes}, {record.MetaChain, s.Chain.First}, {record.MetaBatch, s.Batch}} {
		if m.value != "" {
			t.Meta[m.key] = m.value
		}
	}
	if s.Chain.Number > 0 {
		t.Meta[record.MetaLink] = strconv.Itoa(s.Chain.Number)
	}
	if s.Batch != "" {
		t.Meta[record.MetaIndex] = strconv.Itoa(s.Index)
	}
	if s.Schedule != "" {
		t.Meta[record.MetaSchedule], t.Meta[record.MetaTick] = s.Schedule, s.Tick.UTC().Format(time.RFC3339Nano)
	}
	return t
}

// handOver gives the job to the executor.
func (a *attempt) handOver() {
	now := time.Now()
	if a.stored.Job.Late(now) {
		a.conclude(decision{step: stepRecord, outcome: bullpen.Timeout, reason: job.Expired}, attemptEnd{
			at: now, node: a.queue.Config.Node, err: fmt.Errorf("its deadline %v passed before it started", a.stored.Job.Deadline.Format(time.RFC3339)),
		})
		return
	}
	if !a.move(attemptTaken, attemptHanded) {
		return
	}
	a.number.Store(int64(a.tries.Started + 1))
	a.handed = now
	waited := now.Sub(a.due())
	a.delivery.Begin()
	a.runner.held.Add(1)
	if err := a.runner.executor.Submit(a.ctx, a.task(), a.done); err != nil {
		a.done(bullpen.Result{}, err)
		return
	}
	a.runner.counters.Wait.Add(waited, 1)
}

// move changes the state, atomically. A refused move is a fault of this package; it is
// reported and loses nothing, as the job is delivered again after its lease.
func (a *attempt) move(from, to attemptState) bool {
	if err := a.state.Move(from, to); err != nil {
		a.queue.Journal.Emit(job.Event{Kind: job.NotKept, Job: a.id(), Text: err.Error()})
		return false
	}
	return true
}

func (a *attempt) id() string { return engine.LastToken(a.delivery.Subject) }

// Running reports whether the job was handed to the executor.
func (a *attempt) Running() bool { return a.state.State() != attemptTaken }

// Number returns the number of the attempt, 0 before the job is handed over.
func (a *attempt) Number() int { return int(a.number.Load()) }

// Said returns the last progress, note and log lines of the task.
func (a *attempt) Said() (progress float64, note string, lines []bullpen.LogLine) {
	return a.seen.snapshot()
}

// done receives the end of the job from the executor.
func (a *attempt) done(r bullpen.Result, err error) {
	end := attemptEnd{result: r, err: err, at: time.Now(), node: a.queue.Config.Node}
	cause := context.Cause(a.ctx)
	if _, started := bullpen.OutcomeOf(err); started {
		a.runner.works.Store(true)
		a.countRun(&end)
	}
	end.interrupted = errors.Is(cause, errAborted)
	if o, started := bullpen.OutcomeOf(err); err != nil && errors.Is(cause, errTakenBack) && (!started || o == bullpen.Canceled) {
		a.settled(started)
		return
	}
	if _, started := bullpen.OutcomeOf(err); !started && cause == nil {
		a.runner.heldOff(err)
	}
	d := decide(&a.stored.Job, a.policy, a.queue.Config.MaxResultOf(a.stored), &a.tries, end, random())
	if _, started := bullpen.OutcomeOf(err); !started && d.reason == job.Quarantined {
		end.err = fmt.Errorf("%d workers died while they had it (Retry.Crashes), and none had reported its start: %w", a.tries.Crashes, err)
	}
	a.conclude(d, end)
}

// conclude carries out a decision. From here on the job holds no worker.
func (a *attempt) conclude(d decision, end attemptEnd) {
	from := a.state.State()
	if !a.move(from, attemptStoring) {
		return
	}
	a.freed(from, d.step == stepGiveBack)
	a.queue.Recording.Add(1)
	switch d.step {
	case stepRecord:
		a.record(d, end)
	case stepRetry:
		a.retry(d, end)
	default:
		a.giveBack()
	}
}

// answered ends the attempt on this node, after the delivery was answered.
func (a *attempt) answered() {
	from, err := a.state.MoveAny(attemptAnswered)
	if err != nil {
		return
	}
	if from == attemptStoring {
		a.queue.Recording.Add(-1)
	} else {
		a.freed(from, false)
	}
	a.stop(nil)
	a.queue.forget(a)
	a.runner.finished()
}

// freed reports that the attempt, which was in state from, no longer holds a worker. back
// means that the job is given back without having started.
func (a *attempt) freed(from attemptState, back bool) {
	a.freeGroup(back || from == attemptTaken)
	a.runner.freed(from == attemptHanded)
}

// back gives the job back, to be delivered again after a delay. This node must have
// released it by then, as it may be the one to get it.
func (a *attempt) back(delay time.Duration) {
	a.queue.release(a)
	a.delivery.Nak(delay)
	a.answered()
}

// cancel makes the executor end the job.
func (a *attempt) cancel(cause error) { a.stop(cause) }

// take adds a to the attempts on this node, unless the node already works on that job.
func (q *Node) take(a *attempt) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if other := q.attempts[a.id()]; other != nil && !other.left() {
		return false
	}
	q.attempts[a.id()] = a
	return true
}

// left reports whether the call of Work that had a has returned without its end.
func (a *attempt) left() bool {
	select {
	case <-a.runner.left:
		return true
	default:
		return false
	}
}

// forget removes a from the attempts on this node.
func (q *Node) forget(a *attempt) {
	q.release(a)
	q.InHand.Add(-1)
}

// release allows another attempt of the job on this node.
func (q *Node) release(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.attempts[a.id()] == a {
		delete(q.attempts, a.id())
	}
}

// observed is what a task reports while it runs.
type observed struct {
	queue *Node
	// since and due are those of Delivered; written before the job is handed over.
	since, due time.Time

	mu       sync.Mutex
	progress float64           // guarded by mu
	note     string            // guarded by mu
	lines    []bullpen.LogLine // the last ones; guarded by mu
	bytes    int               // of the texts of lines; guarded by mu
	news     bool              // something changed since it was last stored; guarded by mu
}

// Progress records how far the task is.
func (o *observed) Progress(fraction float64, note string) {
	if !(fraction >= 0) {
		fraction = 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.progress, o.note, o.news = min(fraction, 1), record.Cut(note, record.LongestError), true
}

// Log records a line, and keeps only the last ones.
func (o *observed) Log(line bullpen.LogLine) {
	keep := &o.queue.Config.Keep
	if keep.Lines < 0 {
		return
	}
	line.Text = record.Cut(line.Text, keep.LineBytes)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines, o.bytes, o.news = append(o.lines, line), o.bytes+len(line.Text), true
	drop := 0
	for len(o.lines)-drop > keep.Lines || o.bytes > keep.LineBytes {
		o.bytes -= len(o.lines[drop].Text)
		drop++
	}
	o.lines = append(o.lines[:0], o.lines[drop:]...)
}

func (o *observed) snapshot() (progress float64, note string, lines []bullpen.LogLine) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.progress, o.note, append([]bullpen.LogLine(nil), o.lines...)
}

// due returns when the attempt could have started.
func (a *attempt) due() time.Time {
	due := a.stored.Enqueued
	for _, t := range []time.Time{a.stored.Job.At, a.tries.RetryAt} {
		if t.After(due) {
			due = t
		}
	}
	if n := len(a.tries.History); n > 0 && a.tries.History[n-1].Ended.After(due) {
		due = a.tries.History[n-1].Ended
	}
	return due
}

// countRun counts how long an ended attempt ran.
func (a *attempt) countRun(end *attemptEnd) {
	ran := end.result.Stats.Ran
	if ran <= 0 {
		ran = end.at.Sub(a.handed) // the executor did not report it
	}
	a.runner.counters.Run.Add(ran, 1)
}
