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
	"github.com/bullpen-run/bullpen/job"
)

// runState is the state of a task of an executor.
type runState uint8

const (
	runNew runState = iota
	runWaiting
	runHanded
	runEnded
)

// runStates: only the goroutine that moves a task to runEnded calls its callback.
var runStates = lifecycle.Table[runState]{
	Name:   "task of an executor of a daemon's pool",
	States: map[runState]string{runNew: "new", runWaiting: "waiting", runHanded: "handed over", runEnded: "ended"},
	Moves: map[runState][]runState{
		runNew: {runWaiting, runHanded}, runWaiting: {runHanded, runEnded}, runHanded: {runEnded}, runEnded: nil,
	},
}

// run is one task that is sent to the daemon.
type run struct {
	// These are set before the task is shared.
	id        string // id that the daemon knows; for a durable task, its job's key
	task      bullpen.Task
	ctx       context.Context //nolint:containedctx // the caller's, which bounds the task and not a call
	parent    string
	trace     map[string]string // trace of the parent; nil for none
	parentKey string            // key of a parent that is a job, if looked up
	accepted  time.Time
	done      func(bullpen.Result, error)

	state lifecycle.Machine[runState]

	// These belong to the executor and are guarded by its mu.
	element  *list.Element // its element in the list where it waits
	admitted chan struct{} // closed when a blocked Submit is accepted or refused
	refusal  error         // error of a refused Submit, written before admitted is closed
	unwatch  func() bool   // written once, before the task can end

	sentAt time.Time // used only by the goroutine that performs the task
	job    jobID     // set for a durable task

	mu sync.Mutex
	// why is the cause for which the task was canceled; nil if it was not; guarded by mu.
	why error
	// start starts to cancel the task at the daemon; nil while the daemon does not
	// have it. Guarded by mu.
	start func(cause error)
}

func newRun(id string, t *bullpen.Task) *run {
	r := &run{id: id, task: *t, ctx: context.Background(), accepted: time.Now()}
	r.state.Init(&runStates, runNew)
	r.sentAt = r.accepted
	return r
}

// watch cancels the task when its context ends.
func (r *run) watch(e *Executor) {
	if r.ctx.Done() != nil {
		r.unwatch = context.AfterFunc(r.ctx, func() { e.takeBack(r) })
	}
}

// name returns a readable name of the task.
func (r *run) name() string {
	s := fmt.Sprintf("%q", r.task.Name)
	if r.task.ID != "" {
		s += " " + r.task.ID
	}
	return s + " (" + r.id + ")"
}

// withdraw cancels the task, whether or not it was already sent to the daemon.
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

// arm sets the function that cancels the task. It returns the cause if the task was
// already canceled.
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
var errCut = errors.New("it did not end in time after it was canceled, so its connection was closed")

// attempt sends a task to the daemon once and waits for its end. An *Error means that
// the task did not start; other errors are as from an executor. The end of caller
// does not cut the connection: it goes through r.withdraw, so that the daemon can
// report how the task ended.
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

// withdraw asks the daemon to cancel a task until the task has ended, and cuts its
// connection after grace.
func (c *Client) withdraw(ctx context.Context, cut context.CancelCauseFunc, w way, r *run, sent *sending, why error, grace time.Duration) {
	if !sent.begun.Load() {
		cut(why) // it waits for a connection, so the daemon does not know it
		return
	}
	limit := time.AfterFunc(grace, func() { cut(errCut) }) // runs also while a request is in progress
	defer limit.Stop()
	const first, last = 2 * time.Millisecond, 250 * time.Millisecond
	for pause := first; !w.withdraw(ctx, r); pause = min(2*pause, last) {
		timer := time.NewTimer(pause) // the task may not have arrived yet
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
	<-ctx.Done()
}

// ending converts the error of try to the error for the caller. An *Error is returned
// as such if the task certainly did not start. cut is the cause for which the
// connection was cut; nil if it was not.
func (r *run) ending(err, cut error) error {
	var end *job.EndError
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
		return r.lost("", errCut) // whatever the last error was
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

// refused returns the error of a task that the daemon did not accept; nil if the task
// has an outcome or was canceled.
func refused(err error) *Error {
	if _, started := bullpen.OutcomeOf(err); started {
		return nil
	}
	var no *Error
	errors.As(err, &no)
	return no
}

// uncertain reports whether a task may have started although its outcome is unknown.
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

// canceledBefore returns the error of a task that was canceled before it started.
func canceledBefore(why error) error {
	return fmt.Errorf("canceled before it started: %w", why)
}

// ended returns the error of a task whose end the daemon reported.
func (r *run) ended(end *job.EndError) error {
	if hasNotRun(end) {
		return r.neverRan(end)
	}
	te := end.Task
	if te == nil {
		te = &bullpen.TaskError{Outcome: end.Outcome, Message: end.Message, ExitCode: -1}
	}
	why := r.asked()
	if te.Outcome == bullpen.Canceled && errors.Is(why, context.DeadlineExceeded) {
		te.Outcome = bullpen.Timeout // canceled because its deadline passed
	}
	if (te.Outcome == bullpen.Canceled || te.Outcome == bullpen.Timeout) && te.Err == nil {
		te.Err = why
	}
	return r.taskError(te)
}

// hasNotRun reports whether a job or task ended without having run, and so without a
// failure of its own.
func hasNotRun(e *job.EndError) bool {
	return e.Attempts == 0 && e.Task == nil && e.Outcome != bullpen.Lost
}

// neverRan returns the error of a job or task that ended without having run.
func (r *run) neverRan(end *job.EndError) error {
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

// clocks is how much earlier than this machine the daemon may see a deadline pass.
const clocks = 100 * time.Millisecond

// awaitDeadline waits, if the deadline has passed at the daemon and is near here,
// until it has passed here too: then the context agrees with the error.
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
		message = errCut.Error() + "; its outcome is unknown"
	}
	if message == "" {
		message = "its answer was lost: " + err.Error()
	}
	return r.taskError(&bullpen.TaskError{Outcome: bullpen.Lost, Message: message, Retryable: true, ExitCode: -1, Err: err})
}

// taskError sets the task's name and id to those that the caller knows.
func (r *run) taskError(te *bullpen.TaskError) error {
	te.Task, te.ID = r.task.Name, r.task.ID
	return te
}

// never returns the error of a task that the daemon did not accept.
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
	if errors.Is(err, ErrUnreachable) || errors.Is(err, job.ErrStore) {
		return fmt.Errorf("%w: %w", bullpen.ErrStart, err)
	}
	return fmt.Errorf("%w: %w", bullpen.ErrRefused, err)
}
