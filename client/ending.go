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

// executorState is how far an executor's life has gone.
type executorState uint8

const (
	executorOpen executorState = iota
	executorDraining
	executorStopping
	executorClosing
	executorClosed
)

// executorStates has no way back: the strongest ending wins.
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

// State returns the word for how far the executor's life has gone: open, draining,
// stopping, closing or closed.
func (e *Executor) State() string { return e.state.String() }

// Drain refuses new tasks, finishes all accepted ones, and ends. When ctx ends
// first it goes on as Close. The error is nil if all tasks were finished; see
// [bullpen.Executor].
func (e *Executor) Drain(ctx context.Context) error { return e.end(ctx, executorDraining) }

// Stop refuses new tasks, fails those that are not at the daemon, finishes the
// others, and ends. When ctx ends first it goes on as Close. The error is nil if
// those that had started were all finished; see [bullpen.Executor].
func (e *Executor) Stop(ctx context.Context) error { return e.end(ctx, executorStopping) }

// Close refuses new tasks, fails those that are not at the daemon, asks the daemon
// to end the others, and ends. What has not ended after CloseGrace is lost: its
// connection is cut, and the error names it.
func (e *Executor) Close() error {
	e.begin(executorClosing)
	// Each task cuts its connection itself when its time is over; the rest is for
	// callbacks that do not return.
	const slack = 2 * time.Second
	timer := time.NewTimer(e.config.CloseGrace + slack)
	defer timer.Stop()
	select {
	case <-e.idle:
	case <-timer.C:
		return fmt.Errorf("closing the executor of %s: the callbacks of these tasks do not return: %s", e.pool, strings.Join(e.left(), ", "))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.cut) > 0 {
		slices.Sort(e.cut)
		return fmt.Errorf("closing the executor of %s: these tasks did not end within %v, their connections were cut: %s",
			e.pool, e.config.CloseGrace, strings.Join(e.cut, ", "))
	}
	return nil
}

// end begins an ending and waits for its end.
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
		cause = bullpen.ErrClosed // by another caller
	}
	return errors.Join(fmt.Errorf("ending the executor of %s: %d tasks were aborted: %w", e.pool, n, cause), err)
}

// abortedFor is how many tasks were aborted of those that an ending is to finish.
func (e *Executor) abortedFor(s executorState) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s == executorDraining {
		return e.aborted + e.unsent
	}
	return e.aborted
}

// noteEnd notes a task that Close has asked to end and that did not end well, and
// one that was not sent because the executor ends.
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

// begin moves to a stronger ending, if there is none yet.
func (e *Executor) begin(s executorState) {
	e.mu.Lock()
	if _, err := e.state.MoveAny(s); err != nil { // the one under way is as strong, or it is over
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

// left names the tasks that have a place.
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

// noteCut notes a task whose connection was cut, for the error of Close.
func (e *Executor) noteCut(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state.State() == executorClosing {
		e.cut = append(e.cut, r.name())
	}
}
