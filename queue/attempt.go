package queue

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
	queue    *Queue
	runner   *runner
	delivery engine.Delivery
	state    lifecycle.Machine[attemptState]
	taken    time.Time

	// These are written before anybody else knows of the attempt.
	stored *stored
	policy Retry
	ctx    context.Context //nolint:containedctx // of the job, which outlives the call that takes it
	stop   context.CancelCauseFunc

	// These belong to whoever moves the state: the look-up, then the goroutine of
	// Work, then the end of the job.
	tries  tries
	tried  bool         // what is known of its attempts lies in the store
	number atomic.Int64 // which attempt it is, once it is handed over
	handed time.Time    // when it was; written before

	kept     atomic.Pointer[kept] // where it has a group and counts among those that run; else nil
	seen     observed
	extended atomic.Int64 // when its lease was last renewed, in Unix nanoseconds
	liveSeq  atomic.Uint64
	liveAt   atomic.Int64 // when what it says was last stored
	found    found        // of the look-up, written before the job is handed over
}

func (q *Queue) newAttempt(r *runner, d engine.Delivery) *attempt {
	a := &attempt{queue: q, runner: r, delivery: d, taken: time.Now()}
	a.seen.queue = q
	a.state.Init(&attemptStates, attemptTaken)
	a.ctx, a.stop = context.WithCancelCause(r.jobs)
	a.extended.Store(a.taken.UnixNano())
	return a
}

// is says which job the attempt is of. It is called once, before anybody else
// knows of the attempt.
func (a *attempt) is(s *stored) {
	c, _, _ := parseSubject(a.delivery.Message)
	s.job.Queue = c.Queue
	s.job.Priority, _ = ParsePriority(c.Priority) // the consumer's name is one
	a.stored, a.policy = s, s.job.Retry.over(a.queue.config.Retry)
	if s.job.Deadline.IsZero() {
		return
	}
	stop := a.stop
	var ended context.CancelFunc
	a.ctx, ended = context.WithDeadline(a.ctx, s.job.Deadline)
	a.stop = func(cause error) { stop(cause); ended() }
}

// task gives the job as the executor gets it.
func (a *attempt) task() bullpen.Task {
	j := &a.stored.job
	a.seen.since, a.seen.due = a.stored.enqueued, j.At
	if a.tries.started > 0 {
		a.seen.due = a.tries.retryAt
		if n := len(a.tries.history); n > 0 {
			a.seen.since = a.tries.history[n-1].Ended
		}
	}
	t := bullpen.Task{ID: a.stored.id, Name: j.Name, Payload: j.Payload, Meta: j.Meta, Limits: j.Limits, Observer: &a.seen}
	s := a.stored
	if a.tries.started == 0 && a.tries.crashes == 0 && s.parent == "" && s.schedule == "" && s.chain.first == "" && s.batch == "" {
		return t
	}
	t.Meta = make(map[string]string, len(j.Meta)+6)
	maps.Copy(t.Meta, j.Meta)
	t.Meta[metaAttempt] = strconv.Itoa(a.tries.started + 1)
	if a.tries.cutOff() {
		t.Meta[metaRedelivered] = "true"
	}
	for _, m := range []struct{ key, value string }{{metaParent, s.parent}, {metaUndoes, s.undoes}, {metaChain, s.chain.first}, {metaBatch, s.batch}} {
		if m.value != "" {
			t.Meta[m.key] = m.value
		}
	}
	if s.chain.number > 0 {
		t.Meta[metaLink] = strconv.Itoa(s.chain.number)
	}
	if s.batch != "" {
		t.Meta[metaIndex] = strconv.Itoa(s.index)
	}
	if s.schedule != "" {
		t.Meta[metaSchedule], t.Meta[metaTick] = s.schedule, s.tick.UTC().Format(time.RFC3339Nano)
	}
	return t
}

// handOver gives the job to the executor.
func (a *attempt) handOver() {
	now := time.Now()
	if a.stored.job.late(now) {
		a.conclude(decision{step: stepRecord, outcome: bullpen.Timeout, reason: Expired}, attemptEnd{
			at: now, node: a.queue.config.Node, err: fmt.Errorf("its deadline %v passed before it started", a.stored.job.Deadline.Format(time.RFC3339)),
		})
		return
	}
	if !a.move(attemptTaken, attemptHanded) {
		return
	}
	a.number.Store(int64(a.tries.started + 1))
	a.handed = now
	waited := now.Sub(a.due())
	a.delivery.Begin()
	a.runner.held.Add(1)
	if err := a.runner.executor.Submit(a.ctx, a.task(), a.done); err != nil {
		a.done(bullpen.Result{}, err)
		return
	}
	a.runner.tally.wait.add(waited)
}

// move makes a move that nobody else can make at the same time. A refused one is
// a fault of this package, which is told, and loses nothing: the job is given
// again after its lease.
func (a *attempt) move(from, to attemptState) bool {
	if err := a.state.Move(from, to); err != nil {
		a.queue.journal.emit(Event{Kind: NotKept, Job: a.id(), Text: err.Error()})
		return false
	}
	return true
}

func (a *attempt) id() string { return engine.LastToken(a.delivery.Subject) }

// done takes the end of the job from the executor.
func (a *attempt) done(r bullpen.Result, err error) {
	end := attemptEnd{result: r, err: err, at: time.Now(), node: a.queue.config.Node}
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
	d := decide(&a.stored.job, a.policy, a.stored.maxResult(&a.queue.config), &a.tries, end, random())
	if _, started := bullpen.OutcomeOf(err); !started && d.reason == Quarantined {
		end.err = fmt.Errorf("%d workers died with it in hand (Retry.Crashes), and none had said that it started: %w", a.tries.crashes, err)
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
	a.queue.count.recording.Add(1)
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
		a.queue.count.recording.Add(-1)
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
func (q *Queue) take(a *attempt) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if other := q.hands[a.id()]; other != nil && !other.left() {
		return false
	}
	q.hands[a.id()] = a
	return true
}

// left tells whether the call of Work that had a has returned without it.
func (a *attempt) left() bool {
	select {
	case <-a.runner.left:
		return true
	default:
		return false
	}
}

// forget takes a out of what this node has in hand.
func (q *Queue) forget(a *attempt) {
	q.release(a)
	q.count.hands.Add(-1)
}

// release makes room for another attempt of the job on this node.
func (q *Queue) release(a *attempt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hands[a.id()] == a {
		delete(q.hands, a.id())
	}
}

// observed is what a job says of itself while it runs.
type observed struct {
	queue *Queue
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
	o.progress, o.note, o.news = min(fraction, 1), cut(note, longestError), true
}

// Log keeps a line among the last ones.
func (o *observed) Log(line bullpen.LogLine) {
	keep := &o.queue.config.Keep
	if keep.Lines < 0 {
		return
	}
	line.Text = cut(line.Text, keep.LineBytes)
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

// cut shortens s to most bytes, at the beginning of a character.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xc0 == 0x80 {
		most--
	}
	return s[:most]
}

func (o *observed) snapshot() (progress float64, note string, lines []bullpen.LogLine) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.progress, o.note, append([]bullpen.LogLine(nil), o.lines...)
}
