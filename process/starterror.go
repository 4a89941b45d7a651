package process

import (
	"fmt"

	"github.com/bullpen-run/bullpen"
)

// StartError is the error of a worker that could not be started. It wraps
// [bullpen.ErrStart].
type StartError struct {
	Command []string
	// Exit is how the process ended; empty if Err is set.
	Exit string
	// Stderr holds the last lines of standard error.
	Stderr string
	// Err is the cause; nil if Exit is set.
	Err error
	// Strict reports whether the worker ran in the strict sandbox, where programs often
	// end this way because they lack a file.
	Strict bool
	// Failures is the number of failed starts in a row.
	Failures int
}

// Error returns the command, the cause and the last lines of standard error.
func (e *StartError) Error() string {
	text := fmt.Sprintf("%v: %q", bullpen.ErrStart, e.Command)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Exit != "" {
		text += ": ended with " + e.Exit + " before it was ready"
	}
	if e.Failures > 1 {
		text += fmt.Sprintf(" (%d failed starts in a row)", e.Failures)
	}
	if e.Stderr != "" {
		text += "\n" + e.Stderr
	}
	if e.Strict {
		text += "\n(in the strict sandbox it sees only files of the system and its own: add others with " +
			"Sandbox.Allow, or --allow)"
	}
	return text
}

// Unwrap returns bullpen.ErrStart and the cause, if any.
func (e *StartError) Unwrap() []error {
	if e.Err == nil {
		return []error{bullpen.ErrStart}
	}
	return []error{bullpen.ErrStart, e.Err}
}
