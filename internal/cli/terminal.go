package cli

import (
	"context"
	"io"
	"os"
)

// styleOf returns what the output supports.
func styleOf(ctx context.Context, out io.Writer) style {
	f, ok := out.(*os.File)
	if !ok || !isTerminal(f) {
		return style{}
	}
	columns, _ := terminalSize(ctx, f)
	return style{colours: os.Getenv("NO_COLOR") == "", width: columns}
}

// The size of a terminal that does not report it.
const (
	usualColumns = 80
	usualRows    = 24
)

// Control sequences of a terminal.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	topLeft     = "\x1b[H"
	eraseRest   = "\x1b[K" // of the line
	eraseBelow  = "\x1b[J"
)
