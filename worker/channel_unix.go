//go:build unix

package worker

import (
	"fmt"
	"os"
	"syscall"

	"github.com/bullpen-run/bullpen/protocol"
)

// askSignal is the signal with which the host asks the running handler to end.
// Go's runtime uses SIGURG for itself.
var askSignal os.Signal = syscall.SIGWINCH

// signalNumber is the number of askSignal in HELLO.
const signalNumber = int(syscall.SIGWINCH)

// closeOnExec keeps the descriptors from programs that a handler starts. A Go program has
// no other way to fork.
func closeOnExec(a address) {
	for _, fd := range []int{a.in, a.out, a.mem} {
		if fd >= 0 {
			syscall.CloseOnExec(fd)
		}
	}
}

// mapMemory maps the whole file and closes its descriptor.
func mapMemory(fd int) ([]byte, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if st.Size < protocol.PageSize || st.Size != int64(int(st.Size)) {
		return nil, fmt.Errorf("it has %d bytes; it needs at least %d", st.Size, protocol.PageSize)
	}
	memory, err := syscall.Mmap(fd, 0, int(st.Size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	if err := syscall.Close(fd); err != nil {
		return nil, os.NewSyscallError("close", err)
	}
	return memory, nil
}

// moveStandard moves a channel on the standard streams to other descriptors. Afterwards,
// output goes to standard error, and reads get end of file.
func moveStandard(a address) (address, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return a, err
	}
	defer null.Close()
	for _, m := range []struct {
		fd, standard, replacement int
		to                        *int
	}{{a.in, 0, int(null.Fd()), &a.in}, {a.out, 1, 2, &a.out}} {
		if m.fd != m.standard {
			continue
		}
		if *m.to, err = syscall.Dup(m.fd); err != nil {
			return a, os.NewSyscallError("dup", err)
		}
		if err := replace(m.replacement, m.standard); err != nil {
			return a, os.NewSyscallError("dup2", err)
		}
	}
	return a, nil
}
