package process

import (
	"fmt"

	"github.com/bullpen-run/bullpen"
)

// StartError says why a worker could not be started. It is a
// [bullpen.ErrStart].
type StartError struct {
	Command []string
	// Exit is how the process ended, empty where there was none.
	Exit string
	// Stderr has the last lines that it wrote to standard error.
	Stderr string
	// Err is the cause, nil where Exit is all there is to say.
	Err error
	// Strict says that it ran in the strict sandbox, where programs that lack
	// a file often end so.
	Strict bool
	// Failures is the number of failed starts in a row.
	Failures int
}

// Error gives command, cause and the last lines of standard error.
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
		text += "\n(it sees only files of the system and its own in the strict sandbox: Sandbox.Allow, or --allow, gives it more)"
	}
	return text
}

// Unwrap makes a StartError a bullpen.ErrStart.
func (e *StartError) Unwrap() []error {
	if e.Err == nil {
		return []error{bullpen.ErrStart}
	}
	return []error{bullpen.ErrStart, e.Err}
}
