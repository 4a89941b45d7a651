package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/lifecycle"
)

// executorState is the lifecycle state of an executor.
type executorState uint8

const (
	executorOpen executorState = iota
	executorDraining
	executorStopping
	executorClosing
	executorClosed
)

// executorStates only moves forward: the strongest of drain, stop and close wins.
var executorStates = lifecycle.Table[executorState]{
	Name: "executor of a daemon's pool",
	States: map[executorState]string{
		executorOpen: "open", executorDraining: "draining", executorStopping: "stopping",
		executorClosing: "closing", executorClosed: "closed",
	},
	Moves: map[executorState][]executorState{
		executorOpen:     {executorDraining, executorStopping, executorClosing},
		executorDraining: {executorStopping, executorClosing, executorClosed},
		executorStopping: {executorClosing, executorClosed},
		executorClosing:  {executorClosed},
		executorClosed:   nil,
	},
}

// State returns the executor's lifecycle state: open, draining, stopping, closing or
// closed.
func (e *Executor) State() string { return e.state.String() }

// Drain refuses new tasks, finishes all accepted ones, and closes the executor. If
// ctx ends first, Drain continues as Close. The error is nil if all tasks were
// finished; see [bullpen.Executor].
func (e *Executor) Drain(ctx context.Context) error { return e.end(ctx, executorDraining) }

// Stop refuses new tasks, fails those not yet sent to the daemon, finishes the
// others, and closes the executor. If ctx ends first, Stop continues as Close. The
// error is nil if all started tasks were finished; see [bullpen.Executor].
func (e *Executor) Stop(ctx context.Context) error { return e.end(ctx, executorStopping) }

// Close refuses new tasks, fails those not yet sent to the daemon, asks the daemon to
// cancel the others, and closes the executor. A task that has not ended after
// CloseGrace is lost: its connection is cut, and the error names it.
func (e *Executor) Close() error {
	e.begin(executorClosing)
	// Each task cuts its own connection after CloseGrace; the slack is for callbacks
	// that do not return.
	const slack = 2 * time.Second
	timer := time.NewTimer(e.config.CloseGrace + slack)
	defer timer.Stop()
	select {
	case <-e.idle:
	case <-timer.C:
		return fmt.Errorf("closing the executor of %s: the callbacks of these tasks did not return: %s", e.pool, strings.Join(e.left(), ", "))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.cut) > 0 {
		slices.Sort(e.cut)
		return fmt.Errorf("closing the executor of %s: these tasks did not end within %v, so their connections were closed: %s",
			e.pool, e.config.CloseGrace, strings.Join(e.cut, ", "))
	}
	return nil
}

// end starts to shut down the executor and waits until it is closed.
func (e *Executor) end(ctx context.Context, s executorState) error {
	before := e.abortedFor(s)
	e.begin(s)
	var err error
	select {
	case <-e.idle:
	case <-ctx.Done():
		err = e.Close()
	}
	n := e.abortedFor(s) - before
	if n == 0 {
		return err
	}
	cause := context.Cause(ctx)
	if cause == nil {
		cause = bullpen.ErrClosed // another caller closed it
	}
	return errors.Join(fmt.Errorf("ending the executor of %s: %d tasks were aborted: %w", e.pool, n, cause), err)
}

// abortedFor returns how many tasks were aborted that a shutdown of kind s should
// have finished.
func (e *Executor) abortedFor(s executorState) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s == executorDraining {
		return e.aborted + e.unsent
	}
	return e.aborted
}

// noteEnd counts a task that was aborted by Close, or not sent because the executor
// is shutting down.
func (e *Executor) noteEnd(r *run, err error) {
	if err == nil || !errors.Is(err, bullpen.ErrClosed) && !errors.Is(r.asked(), bullpen.ErrClosed) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	o, started := bullpen.OutcomeOf(err)
	switch {
	case e.state.State() < executorStopping:
	case !started:
		e.unsent++
	case e.state.State() == executorClosing && (o == bullpen.Canceled || o == bullpen.Lost):
		e.aborted++
	}
}

// begin moves to state s, unless the executor is already in that state or a later
// one.
func (e *Executor) begin(s executorState) {
	e.mu.Lock()
	if _, err := e.state.MoveAny(s); err != nil { // already in s or beyond
		e.mu.Unlock()
		return
	}
	var failed, asked []*run
	for e.blocked.Len() > 0 {
		r := e.unblock()
		r.refusal = bullpen.ErrClosed
		close(r.admitted)
	}
	if s >= executorStopping {
		select {
		case <-e.stopping:
		default:
			close(e.stopping)
		}
		for e.waiting.Len() > 0 {
			r := e.waiting.Remove(e.waiting.Front()).(*run)
			r.element = nil
			failed = append(failed, r)
		}
	}
	if s == executorClosing {
		for _, r := range e.hand {
			asked = append(asked, r)
		}
	}
	e.telling += len(failed)
	e.unsent += len(failed)
	e.checkIdle()
	e.room.Notify()
	e.mu.Unlock()
	for _, r := range asked {
		r.withdraw(bullpen.ErrClosed)
	}
	for _, r := range failed {
		e.fail(r, bullpen.ErrClosed)
	}
}

// left returns the names of the tasks in hand, sorted.
func (e *Executor) left() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []string
	for _, r := range e.hand {
		all = append(all, r.name())
	}
	slices.Sort(all)
	return all
}

// noteCut records a task whose connection was cut, for the error of Close.
func (e *Executor) noteCut(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.State() == executorClosing {
		e.cut = append(e.cut, r.name())
	}
}
