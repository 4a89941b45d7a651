package cli

import (
	"context"
	"errors"
	"os"
	"strconv"
)

// terminalSize returns the size of a terminal, if its shell provides it.
func terminalSize(context.Context, *os.File) (columns, rows int) {
	columns, errColumns := strconv.Atoi(os.Getenv("COLUMNS"))
	rows, errRows := strconv.Atoi(os.Getenv("LINES"))
	if errColumns != nil || errRows != nil || columns < 1 || rows < 1 {
		return usualColumns, usualRows
	}
	return columns, rows
}

// singleKeys is not supported: keys are delivered by the line.
func singleKeys(context.Context, *os.File) (restore func() error, err error) {
	return nil, errors.ErrUnsupported
}

// endings are the signals that end the program.
var endings = []os.Signal{os.Interrupt}

// watchSize does nothing: changes of size are not signaled.
func watchSize(chan<- os.Signal) {}

// catchPipe does nothing: on this system a write to a closed pipe returns an error
// anyway.
func catchPipe(chan<- os.Signal) {}

// drawsOver reports whether the terminal can move the cursor. The old console cannot
// without further setup.
func drawsOver() bool { return os.Getenv("WT_SESSION") != "" || os.Getenv("TERM") != "" }
