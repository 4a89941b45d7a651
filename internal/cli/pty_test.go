//go:build unix

package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/creack/pty"
)

// onTerminal is a command that runs another on a pseudo-terminal of its own
// (/dev/tty) and writes to the file SCREEN all that was shown there:
//
//	onterminal [-stdin] [-keys FILE] SCREEN COMMAND [ARG ...]
//
// It reads the terminal until its last user has closed it. The ttyin of
// testscript closes its end as soon as the command has ended, and loses what it
// has not read by then.
func onTerminal() {
	stdin := flag.Bool("stdin", false, "make the terminal the command's standard input")
	keys := flag.String("keys", "", "the file that is typed, then Ctrl-D")
	flag.Parse()
	err := runOnTerminal(*stdin, *keys, flag.Arg(0), flag.Args()[1:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "onterminal:", err)
		os.Exit(99)
	}
}

func runOnTerminal(stdin bool, keys, screen string, command []string) error {
	var typed []byte
	var err error
	if keys != "" {
		if typed, err = os.ReadFile(keys); err != nil {
			return err
		}
	}
	ours, theirs, err := pty.Open()
	if err != nil {
		return err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if stdin {
		cmd.Stdin = theirs
	}
	cmd.ExtraFiles = []*os.File{theirs} // descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return err
	}
	go func() { // ends with this process
		_, _ = ours.Write(append(typed, 'd'&0x1f))
	}()
	shown, failed := io.ReadAll(ours)
	if failed != nil && !errors.Is(failed, syscall.EIO) { // EIO: its last user has closed it
		return fmt.Errorf("read the terminal: %w", failed)
	}
	return errors.Join(os.WriteFile(screen, shown, 0o600), cmd.Wait())
}
