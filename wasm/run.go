package wasm

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/sys"

	"github.com/bullpen-run/bullpen"
)

func duration(n int64) time.Duration { return time.Duration(n) }

// serve runs a call on its instance, delivers the outcome, and returns the next call that
// this goroutine must run, or nil.
func (p *Pool) serve(c *call) (next *call) {
	i := c.instance
	begun := c.accepted // a caller that runs its task has not waited
	if !c.here {
		begun = p.now()
	}
	i.prepare(c)
	if c.timeout > 0 {
		due := begun + int64(c.timeout)
		i.due.Store(due)
		p.alarm.set(due)
	}
	payload, err := i.attempt()
	i.err.close()
	cause := i.end()
	c.result.Payload, c.err = i.verdict(payload, err, cause)
	i.settle(err != nil || cause != nil)
	ended := p.now()
	c.result.Stats = bullpen.Stats{
		Waited: duration(begun - c.accepted), Ran: duration(ended - begun), Worker: i.name, PeakMemory: i.memory.size,
	}
	p.waits.Add(c.result.Stats.Waited, 1)
	p.runs.Add(c.result.Stats.Ran, 1)
	next = p.conclude(c, ended)
	if c.here {
		return next
	}
	sound := false
	defer func() {
		if !sound && next != nil {
			p.start(next) // done has panicked
		}
	}()
	p.deliver(c)
	sound = true
	return next
}

// conclude ends a call that ran, gives its instance back, and returns the next call.
func (p *Pool) conclude(c *call, now int64) *call {
	outcome, started := bullpen.OutcomeOf(c.err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running.remove(c)
	p.move(c, taskEnded)
	if started {
		p.counters.outcomes[outcome]++
	} else {
		p.counters.never++
	}
	if c.err != nil && p.state.State() >= Closing && errors.Is(c.err, bullpen.ErrClosed) {
		p.counters.aborted++
	}
	p.put(c.instance, now)
	c.instance = nil
	next := p.proceed()
	p.madeRoom()
	if c.here { // which delivers the outcome
		p.open--
		p.tryFinish()
	}
	return next
}

// attempt runs the task of the instance. A fault of wazero that is not one of the guest ends
// the task, not this program.
func (i *instance) attempt() (payload []byte, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = &faultError{fmt.Sprint(fault), string(debug.Stack())}
		}
	}()
	switch i.pool.module.abi {
	case Command:
		return i.runCommand()
	case Reactor:
		return i.runReactor()
	default:
		return i.runPlugin()
	}
}

// hostFault is the type in the error of a task that ended by a fault of the host.
const hostFault = "host fault"

// faultError is a fault of the host while a guest ran.
type faultError struct{ message, stack string }

func (e *faultError) Error() string { return e.message }

// ready makes an instance of the module if there is none that the task can use.
func (i *instance) ready() (err error) {
	if i.module != nil && int64(len(i.memory.buf)) > i.memory.bound {
		i.discard()
	}
	if i.module != nil {
		return nil
	}
	if err := i.instantiate(i.config); err != nil {
		return err
	}
	if err := i.initialize(); err != nil {
		return err
	}
	if i.pool.module.mode == Restore {
		return i.remember()
	}
	return nil
}

// settle brings the instance into the state in which it waits for the next task. broken says
// that it did not return from the task.
func (i *instance) settle(broken bool) {
	mode := i.pool.module.mode
	switch {
	case i.module == nil:
	case broken || mode == Fresh || i.module.IsClosed():
		i.discard()
	case mode == Restore:
		if !i.restore() {
			i.discard()
		}
		i.room = 0
	}
	i.call, i.in.data, i.out.buf = nil, nil, nil
	i.answer = answer{}
}

// runCommand runs a command of WASI.
func (i *instance) runCommand() ([]byte, error) {
	m := i.pool.module
	i.in.data = i.call.task.Payload
	if err := i.instantiate(i.environment()); err != nil {
		return nil, err
	}
	for _, name := range m.begin { // the last one is _start
		err := i.call0(i.module.ExportedFunction(name))
		var exit *sys.ExitError
		if errors.As(err, &exit) && exit.ExitCode() == 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if m.speaks {
		if !i.answer.given {
			return nil, sys.NewExitError(0)
		}
		return i.answer.payload, nil
	}
	return i.out.buf, nil
}

// verdict returns how the task ended. err is how the guest ended, cause why it was stopped.
func (i *instance) verdict(payload []byte, err, cause error) ([]byte, error) {
	c := i.call
	switch {
	case i.out.over > 0:
		return nil, i.failed(bullpen.Output, "", fmt.Sprintf("the result has more than %d bytes", c.output))
	case err == nil && i.answer.given && i.answer.outcome != bullpen.OK:
		return nil, i.answered()
	case err == nil && len(payload) > c.output:
		return nil, i.failed(bullpen.Output, "", fmt.Sprintf("the result has %d bytes, more than %d", len(payload), c.output))
	case err == nil:
		return payload, nil
	case cause != nil:
		return nil, i.stoppedError(cause)
	case errors.Is(err, bullpen.ErrStart):
		return nil, i.pool.because(c, err)
	}
	return nil, i.ended(err)
}

// ended is the error of a guest that did not return, and was not stopped.
func (i *instance) ended(err error) error {
	var exit *sys.ExitError
	var lied *lieError
	switch {
	case i.answer.given && i.answer.outcome != bullpen.OK:
		return i.answered()
	case i.memory.refused > 0:
		te := i.failed(bullpen.Memory, "", "")
		te.Err = &memoryError{i.memory.bound, i.memory.refused}
		te.Message = te.Err.Error()
		return te
	case errors.As(err, &exit):
		return i.exited(int(exit.ExitCode()))
	case errors.As(err, &lied):
		return i.failed(bullpen.Protocol, "", lied.Error())
	default:
		return i.trapped(err)
	}
}

// failed makes the error of the running task.
func (i *instance) failed(o bullpen.Outcome, kind, message string) *bullpen.TaskError {
	t := &i.call.task
	return &bullpen.TaskError{
		Outcome: o, Task: t.Name, ID: t.ID, Type: kind, Message: message, Retryable: true,
		Worker: i.name, ExitCode: -1, Detail: i.err.text(),
	}
}

// answered is the error that the guest has given.
func (i *instance) answered() error {
	a := &i.answer
	if a.outcome == bullpen.Timeout {
		return i.stoppedError(errRunTime)
	}
	te := i.failed(a.outcome, a.kind, a.message)
	te.Stack, te.Retryable = a.stack, !a.final && a.outcome != bullpen.Output
	return te
}

// stoppedError is the error of a task that was stopped for a cause.
func (i *instance) stoppedError(cause error) error {
	i.pool.emit(Event{Kind: Stopped, Instance: i.name, Task: i.call.task.Name, Text: cause.Error()})
	if errors.Is(cause, errRunTime) {
		te := i.failed(bullpen.Timeout, "", fmt.Sprintf("ran longer than %v", i.call.timeout))
		te.Err = context.DeadlineExceeded
		return te
	}
	outcome := bullpen.Canceled
	if errors.Is(cause, context.DeadlineExceeded) {
		outcome = bullpen.Timeout
	}
	te := i.failed(outcome, "", "")
	te.Err = cause
	return te
}

// exited is the error of a guest that ended with an exit status. A program that answers by
// functions of the host and exits without an answer has crashed; for any other command the
// status is the answer.
func (i *instance) exited(status int) error {
	if i.pool.module.speaks || i.pool.module.abi != Command {
		te := i.failed(bullpen.Crashed, "", "")
		te.ExitCode = status
		if status == 0 {
			te.Message = "the guest exited without an answer"
		}
		return te
	}
	te := i.failed(bullpen.Failed, "", fmt.Sprintf("exit status %d", status))
	te.ExitCode = status
	if last := i.err.last(); last != "" {
		te.Message += ": " + last
	}
	return te
}

// trapped is the error of a guest that trapped.
func (i *instance) trapped(err error) error {
	var fault *faultError
	if errors.As(err, &fault) {
		te := i.failed(bullpen.Crashed, hostFault, fault.message)
		te.Stack = fault.stack
		return te
	}
	message, stack, _ := strings.Cut(err.Error(), "\nwasm stack trace:\n")
	message = strings.TrimPrefix(message, "wasm error: ")
	te := i.failed(bullpen.Crashed, "trap", message)
	te.Stack = strings.ReplaceAll(strings.TrimPrefix(stack, "\t"), "\n\t", "\n")
	te.Err = err
	i.pool.emit(Event{Kind: Trapped, Instance: i.name, Task: te.Task, Text: message})
	return te
}

// lieError is what a guest must not give to the host, such as a pointer that leads out of its
// memory.
type lieError struct{ what string }

func (e *lieError) Error() string { return e.what }
