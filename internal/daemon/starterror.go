package daemon

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/logs"
	"github.com/bullpen-run/bullpen/process"
)

// startError is a process.StartError for callers of the API: without the command
// line, which may contain secrets. The log has the complete error.
type startError struct {
	text  string
	cause []error
}

// Error returns the text.
func (e *startError) Error() string { return e.text }

// Unwrap returns what the StartError wraps, so that it is also a [bullpen.ErrStart].
func (e *startError) Unwrap() []error { return e.cause }

// shownError returns err in the form for callers.
func shownError(err error) error {
	var start *process.StartError
	if err == nil || !errors.As(err, &start) {
		return err
	}
	return &startError{shownText(start.Error(), start.Command), start.Unwrap()}
}

// shownText removes the command line from the text of a process.StartError, and hides
// what looks like a secret in the worker's output.
func shownText(text string, command []string) string {
	intro := bullpen.ErrStart.Error()
	return logs.Clean(strings.Replace(text, fmt.Sprintf("%s: %q", intro, command), intro, 1))
}
