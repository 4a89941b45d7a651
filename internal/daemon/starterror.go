package daemon

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/logs"
	"github.com/bullpen-run/bullpen/process"
)

// startError is a process.StartError as callers of the API may read it: without the
// command line, which may hold secrets. The log has all of it.
type startError struct {
	text  string
	cause []error
}

// Error returns the text.
func (e *startError) Error() string { return e.text }

// Unwrap returns what the StartError had wrapped, so that it is a
// [bullpen.ErrStart] as well.
func (e *startError) Unwrap() []error { return e.cause }

// told returns err as callers may read it.
func told(err error) error {
	var start *process.StartError
	if err == nil || !errors.As(err, &start) {
		return err
	}
	return &startError{toldText(start.Error(), start.Command), start.Unwrap()}
}

// toldText takes the command line out of the text of a process.StartError, and
// hides what looks like a secret in what the worker has printed.
func toldText(text string, command []string) string {
	intro := bullpen.ErrStart.Error()
	return logs.Clean(strings.Replace(text, fmt.Sprintf("%s: %q", intro, command), intro, 1))
}
