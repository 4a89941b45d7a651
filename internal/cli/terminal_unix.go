//go:build unix

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// stty queries or changes a terminal with stty(1).
func stty(ctx context.Context, terminal *os.File, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "stty", args...)
	cmd.Stdin = terminal
	var says bytes.Buffer
	cmd.Stderr = &says
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("stty: %w: %s", err, plain(says.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// terminalSize returns the size of a terminal.
func terminalSize(ctx context.Context, terminal *os.File) (columns, rows int) {
	said, err := stty(ctx, terminal, "size")
	if err == nil {
		_, err = fmt.Sscanf(said, "%d %d", &rows, &columns)
	}
	if err != nil || columns < 1 || rows < 1 {
		return usualColumns, usualRows
	}
	return columns, rows
}

// singleKeys makes a terminal deliver each key immediately, without echo; a read
// returns nothing if no key was pressed for a moment. restore restores the former
// state.
func singleKeys(ctx context.Context, terminal *os.File) (restore func() error, err error) {
	before, err := stty(ctx, terminal, "-g")
	if err != nil {
		return nil, err
	}
	if _, err = stty(ctx, terminal, "-icanon", "-echo", "min", "0", "time", "1", "susp", "undef"); err != nil {
		return nil, err
	}
	return func() error {
		_, err := stty(context.WithoutCancel(ctx), terminal, before)
		return err
	}, nil
}

// endings are the signals that end the program.
var endings = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// watchSize signals changes of the terminal's size.
func watchSize(changed chan<- os.Signal) { signal.Notify(changed, syscall.SIGWINCH) }

// catchPipe makes a write to a closed pipe return an error instead of ending the
// program.
func catchPipe(c chan<- os.Signal) { signal.Notify(c, syscall.SIGPIPE) }

// drawsOver reports whether terminals on this system can move the cursor.
func drawsOver() bool { return true }
