package confine

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Memory is a piece of memory that is shared with a child by handing over its
// File. It takes up only the pages that somebody has written to. Its size is
// sealed: no child can shrink it under the host.
type Memory struct {
	file *os.File

	mu     sync.Mutex
	bytes  []byte // +checklocks:mu; nil after Close
	closed error  // +checklocks:mu; result of the first Close
}

// NewMemory makes size bytes of shared memory, all zero. The name is for
// people who look into /proc.
func NewMemory(name string, size int) (*Memory, error) {
	if size <= 0 {
		return nil, fmt.Errorf("confine: shared memory of %d bytes: the size has to be positive", size)
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before 6.3 the kernel does not know that seal
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

// Bytes is the memory itself, nil after Close. The other side may change it
// at any time: copy out first, look then. Using it after Close ends the
// program with a fault.
func (m *Memory) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes
}

// File is what a child maps; it may be put into [Spec.Files]. It is closed by
// Close.
func (m *Memory) File() *os.File { return m.file }

// Close unmaps the memory and closes its file. It is idempotent and may be
// called from many goroutines; none may use the bytes any more.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bytes != nil {
		m.closed = errors.Join(unix.Munmap(m.bytes), m.file.Close())
		m.bytes = nil
	}
	return m.closed
}
