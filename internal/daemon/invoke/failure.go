package invoke

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen"
)

// failure is the payload of an invocation whose function failed.
type failure struct {
	Message string   `json:"errorMessage"`
	Type    string   `json:"errorType"`
	ID      string   `json:"requestId"`
	Stack   []string `json:"stackTrace"`
}

// failureOf describes why the function of v failed; nil if err is not an error of the
// function, which then has not started.
func failureOf(v *invocation, ran time.Duration, err error) *failure {
	f := &failure{ID: v.id, Stack: []string{}}
	var task *bullpen.TaskError
	switch {
	case errors.As(err, &task):
		f.describe(v, ran, task)
	case errors.Is(err, bullpen.ErrStart): // AWS, too, answers so
		f.ends("Runtime.ExitError", err.Error())
	case errors.Is(err, bullpen.ErrUnknownTask):
		f.ends("Runtime.HandlerNotFound", err.Error())
	default:
		return nil
	}
	return f
}

// ends sets the error of a function that could not report one.
func (f *failure) ends(kind, text string) {
	f.Type, f.Message = kind, "RequestId: "+f.ID+" Error: "+text
}

func (f *failure) describe(v *invocation, ran time.Duration, task *bullpen.TaskError) {
	outcome := task.Outcome
	if outcome == bullpen.Lost && (task.Signal != "" || task.ExitCode > 0) {
		outcome = bullpen.Crashed // AWS makes no difference
	}
	switch outcome {
	case bullpen.Timeout:
		if v.function.Timeout > 0 {
			ran = v.function.Timeout
		}
		f.ends("Sandbox.Timedout", fmt.Sprintf("Task timed out after %.2f seconds", ran.Seconds()))
	case bullpen.Crashed:
		f.ends("Runtime.ExitError", exitText(task))
	case bullpen.Memory:
		f.ends("Runtime.OutOfMemory", exitText(task))
	case bullpen.Output:
		f.Type, f.Message = "Function.ResponseSizeTooLarge", task.Error()
	case bullpen.Failed, bullpen.Panic:
		f.Type, f.Message = task.Type, task.Message
		if f.Type == "" {
			f.Type = "Error"
		}
		if f.Message == "" {
			f.Message = task.Error()
		}
		if stack := strings.TrimRight(task.Stack, "\n"); stack != "" {
			f.Stack = strings.Split(stack, "\n")
		}
	default: // AWS has no word for these
		f.Type, f.Message = "Bullpen."+task.Outcome.String(), task.Error()
	}
}

// exitText describes how a worker ended.
func exitText(task *bullpen.TaskError) string {
	switch {
	case task.Signal != "":
		return "Runtime exited with error: signal: " + task.Signal
	case task.ExitCode > 0:
		return fmt.Sprintf("Runtime exited with error: exit status %d", task.ExitCode)
	}
	return "Runtime exited without providing a reason"
}

// JSON returns f as JSON.
func (f *failure) JSON() []byte {
	text, err := json.Marshal(f)
	if err != nil {
		return []byte("{}")
	}
	return text
}
