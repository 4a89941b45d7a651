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

// attemptState is where a job in the hands of this node is.
type attemptState uint8

const (
	// attemptTaken: it came from the store; what is known of it is looked up.
	attemptTaken attemptState = iota
	// attemptHanded: the executor has it.
	attemptHanded
	// attemptStoring: it has ended, and what follows is on its way to the disk. It
	// holds no worker.
	attemptStoring
	// attemptAnswered: the store has been told, and this node has it no more.
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

// attempt is a job in the hands of this node, from its delivery to its answer.
type attempt struct {
	queue    *Node
	runner   *runner
	delivery engine.Delivery
	state    lifecycle.Machine[attemptState]
	taken    time.Time

	// These are written before anybody else knows of the attempt.
	stored *record.Job
	policy job.Retry
	ctx    context.Context //nolint:containedctx // of the job, which outlives the call that takes it
	stop   context.CancelCauseFunc

	// These belong to whoever moves the state: the look-up, then the goroutine of
	// Work, then the end of the job.
	tries  record.Tries
	tried  bool         // what is known of its attempts lies in the store
	number atomic.Int64 // which attempt it is, once it is handed over
	handed time.Time    // when it was; written before

	kept     atomic.Pointer[group.Job] // where it has a group and counts among those that run; else nil
	seen     observed
	extended atomic.Int64 // when its lease was last renewed, in Unix nanoseconds
	liveSeq  atomic.Uint64
	liveAt   atomic.Int64 // when what it says was last stored
	found    found        // of the look-up, written before the job is handed over
}

func (q *Node) newAttempt(r *runner, d engine.Delivery) *attempt {
	a := &attempt{queue: q, runner: r, delivery: d, taken: time.Now()}
	a.seen.queue = q
	a.state.Init(&attemptStates, attemptTaken)
	a.ctx, a.stop = context.WithCancelCause(r.jobs)
	a.extended.Store(a.taken.UnixNano())
	return a
}

// is says which job the attempt is of. It is called once, before anybody else
// knows of the attempt.
func (a *attempt) is(s *record.Job) {
	c, _, _ := record.ParseSubject(a.delivery.Message)
	s.Job.Queue = c.Queue
	s.Job.Priority, _ = job.ParsePriority(c.Priority) // the consumer's name is one
	a.stored, a.policy = s, s.Job.Retry.Over(a.queue.Config.Retry)
	if s.Job.Deadline.IsZero() {
		return
	}
	stop := a.stop
	var ended context.CancelFunc
	a.ctx, ended = context.WithDeadline(a.ctx, s.Job.Deadline)
	a.stop = func(cause error) { stop(cause); ended() }
}

// task gives the job as the executor gets it.
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
	a.runner.tally.Wait.Add(waited)
}

// move makes a move that nobody else can make at the same time. A refused one is
// a fault of this package, which is told, and loses nothing: the job is given
// again after its lease.
func (a *attempt) move(from, to attemptState) bool {
	if err := a.state.Move(from, to); err != nil {
		a.queue.Journal.Emit(job.Event{Kind: job.NotKept, Job: a.id(), Text: err.Error()})
		return false
	}
	return true
}

func (a *attempt) id() string { return engine.LastToken(a.delivery.Subject) }

// Running reports whether the executor has had it.
func (a *attempt) Running() bool { return a.state.State() != attemptTaken }

// Number returns which attempt it is, 0 before it is handed over.
func (a *attempt) Number() int { return int(a.number.Load()) }

// Said returns what it has last said of itself.
func (a *attempt) Said() (progress float64, note string, lines []bullpen.LogLine) {
	return a.seen.snapshot()
}

// done takes the end of the job from the executor.
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
		end.err = fmt.Errorf("%d workers died with it in hand (Retry.Crashes), and none had said that it started: %w", a.tries.Crashes, err)
	}
	a.conclude(d, end)
}

// conclude does what was decided. From here on the job holds no worker.
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

// answered ends the attempt on this node, after the store was told.
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

// freed says that the attempt, which was in state from, holds no worker any more;
// back says that it goes back without having started.
func (a *attempt) freed(from attemptState, back bool) {
	a.freeGroup(back || from == attemptTaken)
	a.runner.freed(from == attemptHanded)
}

// back gives the job back, to be handed out again after a delay: perhaps to this
// node, which must not have it in hand any more by then.
func (a *attempt) back(delay time.Duration) {
	a.queue.release(a)
	a.delivery.Nak(delay)
	a.answered()
}

// cancel makes the executor end the job.
func (a *attempt) cancel(cause error) { a.stop(cause) }

// take puts a into what this node has in hand, unless it has the same job
// already and works on it.
func (q *Node) take(a *attempt) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if other := q.hands[a.id()]; other != nil && !other.left() {
		return false
	}
	q.hands[a.id()] = a
	return true
}

// left reports whether the call of Work that had a has returned without it.
func (a *attempt) left() bool {
	select {
	case <-a.runner.left:
		return true
	default:
		return false
	}
}

// forget takes a out of what this node has in hand.
func (q *Node) forget(a *attempt) {
	q.release(a)
	q.InHand.Add(-1)
}

// release makes room for another attempt of the job on this node.
func (q *Node) release(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hands[a.id()] == a {
		delete(q.hands, a.id())
	}
}

// observed is what a job says of itself while it runs.
type observed struct {
	queue *Node
	// since and due are those of Delivered; written before the job is handed over.
	since, due time.Time

	mu       sync.Mutex
	progress float64           // guarded by mu
	note     string            // guarded by mu
	lines    []bullpen.LogLine // the last ones; guarded by mu
	bytes    int               // of the texts of lines; guarded by mu
	news     bool              // since it was last stored; guarded by mu
}

// Progress notes how far the job is.
func (o *observed) Progress(fraction float64, note string) {
	if !(fraction >= 0) {
		fraction = 0
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.progress, o.note, o.news = min(fraction, 1), record.Cut(note, record.LongestError), true
}

// Log keeps a line among the last ones.
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

// due is when the attempt could have started.
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

// countRun counts how long an attempt ran that has ended.
func (a *attempt) countRun(end *attemptEnd) {
	ran := end.result.Stats.Ran
	if ran <= 0 {
		ran = end.at.Sub(a.handed) // its executor does not say
	}
	a.runner.tally.Run.Add(ran)
}
