package cli

import (
	"context"
	"errors"
	"os"
	"strconv"
)

// terminalSize tells the size of a terminal, as far as its shell does.
func terminalSize(context.Context, *os.File) (columns, rows int) {
	columns, errColumns := strconv.Atoi(os.Getenv("COLUMNS"))
	rows, errRows := strconv.Atoi(os.Getenv("LINES"))
	if errColumns != nil || errRows != nil || columns < 1 || rows < 1 {
		return usualColumns, usualRows
	}
	return columns, rows
}

// singleKeys is not there: keys come by the line.
func singleKeys(context.Context, *os.File) (restore func() error, err error) {
	return nil, errors.ErrUnsupported
}

// endings are the signals that ask the program to end.
var endings = []os.Signal{os.Interrupt}

// watchSize tells nothing: the size does not change.
func watchSize(chan<- os.Signal) {}

// catchPipe does nothing: a write that nobody reads is an error here.
func catchPipe(chan<- os.Signal) {}

// drawsOver reports whether the terminal understands how to move the cursor: the
// old console does not, without being told.
func drawsOver() bool { return os.Getenv("WT_SESSION") != "" || os.Getenv("TERM") != "" }
