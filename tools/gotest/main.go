// Command gotest runs go test, shows what go test shows, and closes with what
// go test keeps to itself: which tests were skipped and why, and how many passed,
// failed and were skipped.
//
// Its arguments are those of go test; its exit status is that of go test.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	test := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	test.Stderr = os.Stderr
	events, err := test.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := test.Start(); err != nil {
		return 0, err
	}
	r := newReport(os.Stdout)
	readErr := r.read(events)
	failure := test.Wait()
	r.close()
	var exit *exec.ExitError
	switch {
	case errors.As(failure, &exit):
		return max(exit.ExitCode(), 1), nil
	case failure != nil:
		return 0, failure
	default:
		return 0, readErr
	}
}
