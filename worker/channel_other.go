//go:build !unix

package worker

import (
	"errors"
	"os"
)

// Without signals the host cannot ask a handler to end; it can only kill.
var askSignal os.Signal

const signalNumber = 0

// closeOnExec does nothing: handles are not inherited by default.
func closeOnExec(address) {}

func mapMemory(int) ([]byte, error) {
	return nil, errors.New("this system cannot share memory with a worker; the host must leave mem out")
}

// moveStandard keeps the handles and redirects the program's standard streams.
func moveStandard(a address) (address, error) {
	if a.in == 0 {
		a.in = int(os.Stdin.Fd())
		null, err := os.Open(os.DevNull)
		if err != nil {
			return a, err
		}
		os.Stdin = null
	}
	if a.out == 1 {
		a.out = int(os.Stdout.Fd())
		os.Stdout = os.Stderr
	}
	return a, nil
}
