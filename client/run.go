package client

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// runState is where a task of an executor is.
type runState uint8

const (
	runNew runState = iota
	runWaiting
	runHanded
	runEnded
)

// runStates: whoever moves a task to its end tells its outcome, nobody else.
var runStates = lifecycle.Table[runState]{
	Name:   "task of an executor of a daemon's pool",
	States: map[runState]string{runNew: "new", runWaiting: "waiting", runHanded: "handed over", runEnded: "ended"},
	Moves: map[runState][]runState{
		runNew: {runWaiting, runHanded}, runWaiting: {runHanded, runEnded}, runHanded: {runEnded}, runEnded: nil,
	},
}

// run is one task on its way to the daemon and back.
type run struct {
	// These are set before the task is shared.
	id        string // that the daemon knows it by; of a durable task, the key of its job
	task      bullpen.Task
	ctx       context.Context //nolint:containedctx // the caller's, which bounds the task and not a call
	parent    string
	trace     map[string]string // that of the parent; nil for none
	parentKey string            // of a parent that is a job, where that was looked up
	accepted  time.Time
	done      func(bullpen.Result, error)

	state lifecycle.Machine[runState]

	// These belong to the executor and are guarded by its mu.
	element  *list.Element // where it waits
	admitted chan struct{} // closed when a blocked Submit is over
	refusal  error         // why, written before admitted is closed
	unwatch  func() bool   // written once, before the task can end

	sentAt time.Time // of the goroutine that performs it
	job    jobID     // of a durable task

	mu sync.Mutex
	// why is the cause for which the task was asked to end; nil while it was not.
	// +checklocks:mu
	why error
	// start begins to ask the daemon; nil while it does not have the task.
	// +checklocks:mu
	start func(cause error)
}

func newRun(id string, t *bullpen.Task) *run {
	r := &run{id: id, task: *t, ctx: context.Background(), accepted: time.Now()}
	r.state.Init(&runStates, runNew)
	r.sentAt = r.accepted
	return r
}

// watch takes the task back when its context ends.
func (r *run) watch(e *Executor) {
	if r.ctx.Done() != nil {
		r.unwatch = context.AfterFunc(r.ctx, func() { e.takeBack(r) })
	}
}

// name names the task for people.
func (r *run) name() string {
	s := fmt.Sprintf("%q", r.task.Name)
	if r.task.ID != "" {
		s += " " + r.task.ID
	}
	return s + " (" + r.id + ")"
}

// withdraw asks the task to end, whether the daemon has it already or is to get it.
func (r *run) withdraw(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why != nil {
		return
	}
	r.why = why
	if r.start != nil {
		r.start(why)
	}
}

func (r *run) asked() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// arm sets what is done when the task is asked to end; an error says that it was
// already.
func (r *run) arm(start func(error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why == nil {
		r.start = start
	}
	return r.why
}

func (r *run) disarm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start = nil
}

// errCut is the cause for which a connection is cut.
var errCut = errors.New("it was asked to end and has not in time, so its connection was cut")

// attempt gives a task to the daemon once and waits for its end. An *Error says
// that it did not start; all else is as an executor gives it. The end of caller
// ends it by way of withdraw only: the daemon is to say how the task ended.
func (c *Client) attempt(caller context.Context, w way, r *run, grace time.Duration) (bullpen.Result, error) {
	ctx, cut := context.WithCancelCause(context.WithoutCancel(caller))
	defer cut(nil)
	sent := &sending{}
	var asking sync.WaitGroup
	err := r.arm(func(why error) {
		asking.Go(func() { c.withdraw(ctx, cut, w, r, sent, why, grace) }) // ends with ctx; attempt waits for it
	})
	if err != nil {
		return bullpen.Result{}, canceledBefore(err)
	}
	r.sentAt = time.Now()
	res, err := w.try(ctx, r, sent)
	r.disarm()
	why := context.Cause(ctx)
	cut(nil)
	asking.Wait()
	if err != nil {
		err = r.ending(err, why)
	}
	return res, err
}

// withdraw asks the daemon to end a task until the task has ended, and cuts its
// connection when that takes too long.
func (c *Client) withdraw(ctx context.Context, cut context.CancelCauseFunc, w way, r *run, sent *sending, why error, grace time.Duration) {
	if !sent.begun.Load() {
		cut(why) // it waits for a connection: the daemon knows nothing of it
		return
	}
	limit := time.AfterFunc(grace, func() { cut(errCut) }) // also while the daemon is being asked
	defer limit.Stop()
	const first, last = 2 * time.Millisecond, 250 * time.Millisecond
	for pause := first; !w.withdraw(ctx, r); pause = min(2*pause, last) {
		timer := time.NewTimer(pause) // it may not have arrived yet
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
	<-ctx.Done()
}

// ending makes of what a way says the end of the task as its caller is to see it.
// An *Error stays one where the task certainly did not start. cut is the cause for
// which the request was ended, nil where it was not.
func (r *run) ending(err, cut error) error {
	var end *EndError
	if errors.As(err, &end) {
		return r.ended(end)
	}
	var no *Error
	if !errors.As(err, &no) {
		return r.lost("", err)
	}
	why := r.asked()
	switch {
	case no.uncertain() && errors.Is(cut, errCut):
		return r.lost("", errCut) // whatever the last try has seen
	case no.Cause == causeTooLarge && no.Status == 200:
		return r.taskError(&bullpen.TaskError{Outcome: bullpen.Output, Message: no.Detail, ExitCode: -1, Err: no})
	case no.uncertain():
		return r.lost(no.Detail, no)
	case why != nil:
		return canceledBefore(why)
	default:
		return no
	}
}

// refused returns the answer of a daemon that did not take a task, nil where it is
// none: the task has an outcome, or was taken back.
func refused(err error) *Error {
	if _, started := bullpen.OutcomeOf(err); started {
		return nil
	}
	var no *Error
	errors.As(err, &no)
	return no
}

// uncertain reports whether a task may have started although there is no outcome.
func (e *Error) uncertain() bool {
	switch e.Cause {
	case causeUnconfirmed, "internal":
		return true
	case causeAnswer:
		return e.Status == 0 || e.Status/100 == 2 || e.Status/100 == 5
	default:
		return false
	}
}

// canceledBefore is the error of a task that was taken back before it started.
func canceledBefore(why error) error {
	return fmt.Errorf("taken back before it started: %w", why)
}

// ended is the end of a task of which the daemon told one.
func (r *run) ended(end *EndError) error {
	if end.never() {
		return r.neverRan(end)
	}
	te := end.Task
	if te == nil {
		te = &bullpen.TaskError{Outcome: end.Outcome, Message: end.Message, ExitCode: -1}
	}
	why := r.asked()
	if te.Outcome == bullpen.Canceled && errors.Is(why, context.DeadlineExceeded) {
		te.Outcome = bullpen.Timeout // it was taken back because its deadline passed
	}
	if (te.Outcome == bullpen.Canceled || te.Outcome == bullpen.Timeout) && te.Err == nil {
		te.Err = why
	}
	return r.taskError(te)
}

// never reports whether a job or task ended without having run: then there is no
// failure of it.
func (e *EndError) never() bool {
	return e.Attempts == 0 && e.Task == nil && e.Outcome != bullpen.Lost
}

// neverRan is the error of a job or task that ended without having run.
func (r *run) neverRan(end *EndError) error {
	if end.Outcome == bullpen.Timeout {
		r.awaitDeadline()
	}
	why := r.asked()
	if why == nil {
		why = context.Cause(r.ctx)
	}
	switch {
	case why != nil:
		return fmt.Errorf("%w: %w", canceledBefore(why), end)
	case end.Outcome == bullpen.Timeout:
		return fmt.Errorf("its deadline passed before it started: %w", end)
	default:
		return neverStarted(end)
	}
}

// clocks is how much earlier than here the daemon may see a deadline pass.
const clocks = 100 * time.Millisecond

// awaitDeadline waits for a deadline that has passed at the daemon to pass here
// too, if that is near: then the context says the same as the error.
func (r *run) awaitDeadline() {
	end, ok := r.ctx.Deadline()
	if left := time.Until(end); !ok || left > clocks {
		return
	}
	timer := time.NewTimer(clocks)
	defer timer.Stop()
	select {
	case <-r.ctx.Done():
	case <-timer.C:
	}
}

func (r *run) lost(message string, err error) error {
	if errors.Is(err, errCut) {
		message = errCut.Error() + "; how it ended is not known"
	}
	if message == "" {
		message = "its answer was lost: " + err.Error()
	}
	return r.taskError(&bullpen.TaskError{Outcome: bullpen.Lost, Message: message, Retryable: true, ExitCode: -1, Err: err})
}

// taskError gives the error the names that the caller knows.
func (r *run) taskError(te *bullpen.TaskError) error {
	te.Task, te.ID = r.task.Name, r.task.ID
	return te
}

// never is the error of a task that the daemon did not take.
func (r *run) never(err error) error {
	if r.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", canceledBefore(context.Cause(r.ctx)), err)
	}
	return neverStarted(err)
}

// neverStarted makes sure that err wraps one of the reasons of package bullpen.
func neverStarted(err error) error {
	for _, reason := range []error{bullpen.ErrClosed, bullpen.ErrOverloaded, bullpen.ErrUnknownTask, bullpen.ErrRefused, bullpen.ErrStart} {
		if errors.Is(err, reason) {
			return err
		}
	}
	if errors.Is(err, ErrUnreachable) || errors.Is(err, ErrStore) {
		return fmt.Errorf("%w: %w", bullpen.ErrStart, err)
	}
	return fmt.Errorf("%w: %w", bullpen.ErrRefused, err)
}
