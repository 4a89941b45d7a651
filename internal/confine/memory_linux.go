package confine

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Memory is memory that is shared with a child by passing it File. Only pages that were
// written take up memory. Its size is sealed: a child cannot shrink it.
type Memory struct {
	file *os.File

	mu     sync.Mutex
	bytes  []byte // nil after Close; guarded by mu
	closed error  // the result of the first Close; guarded by mu
}

// NewMemory creates size bytes of shared memory, all zero. The name is visible in /proc.
func NewMemory(name string, size int) (*Memory, error) {
	if size <= 0 {
		return nil, fmt.Errorf("confine: shared memory of %d bytes: the size must be positive", size)
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before 6.3 the kernel does not support that seal
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("confine: shared memory: memfd_create: %w", err)
	}
	bytes, err := mapSealed(fd, size)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("confine: shared memory of %d bytes: %w", size, err)
	}
	return &Memory{file: os.NewFile(uintptr(fd), name), bytes: bytes}, nil
}

func mapSealed(fd, size int) ([]byte, error) {
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, fmt.Errorf("ftruncate: %w", err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	bytes, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return bytes, nil
}

// Bytes returns the memory, nil after Close. The other side may change it at any time:
// copy data out before checking it. Using the slice after Close ends the program with a
// fault.
func (m *Memory) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// File returns the file that a child maps; it may be put into [Spec.Files]. Close closes
// it.
func (m *Memory) File() *os.File { return m.file }

// Close unmaps the memory and closes its file. It is idempotent and safe for concurrent
// use; no goroutine may use the bytes any longer.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bytes != nil {
		m.closed = errors.Join(unix.Munmap(m.bytes), m.file.Close())
		m.bytes = nil
	}
	return m.closed
}
