package confine

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// guard is the first process of a PID namespace. Its pidfd and link stay open until its
// last user has released it.
type guard struct {
	pid   int
	pidfd int
	link  int // the host's end of the guard's descriptor 0; closing it ends the guard
	users int // guarded by guards.mu
	// For a guard in a user namespace of its own: descriptors of that namespace and of
	// its PID namespace; else -1.
	userns, pidns int
	last          chan struct{} // closed when the last user has released it
	gone          chan struct{} // closed when it is reaped and its thread is about to end
}

// guards holds the guard that the Spawners of this process share.
var guards struct {
	mu      sync.Mutex
	current *guard // nil if none is in use; guarded by mu
}

// acquireGuard returns a live guard, the shared one unless alone. The caller must release
// it.
func acquireGuard(alone bool) (*guard, error) {
	if alone {
		return startGuard(false)
	}
	guards.mu.Lock()
	defer guards.mu.Unlock()
	if g := guards.current; g != nil && !g.dying() {
		g.users++
		return g, nil
	}
	g, err := startGuard(false)
	if err != nil {
		return nil, err
	}
	guards.current = g
	return g, nil
}

// release gives g back. It reports whether that was the last user, so that the guard and
// everything in its namespace ends now. The caller may then wait for g.gone, once all
// children started there were waited for.
func (g *guard) release() (last bool) {
	guards.mu.Lock()
	defer guards.mu.Unlock()
	g.users--
	if g.users > 0 {
		return false
	}
	if guards.current == g {
		guards.current = nil
	}
	unix.Close(g.link)
	close(g.last)
	return true
}

// dying reports whether g has ended or is about to: the kernel closes its end of the link
// before it closes the namespace to new processes. The caller must have acquired g.
func (g *guard) dying() bool {
	p := []unix.PollFd{{Fd: int32(g.link)}}
	for {
		n, err := unix.Poll(p, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err != nil || n > 0 // with no events requested, only closing of the other end is reported
	}
}

// enter makes the children of the calling thread start in g's namespace.
func (g *guard) enter() error {
	err := unix.Setns(g.pidfd, unix.CLONE_NEWPID)
	if errors.Is(err, unix.EINVAL) { // before 5.8 setns does not support pidfds
		var ns int
		ns, err = unix.Open(fmt.Sprintf("/proc/%d/ns/pid", g.pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(ns, unix.CLONE_NEWPID)
			unix.Close(ns)
		}
	}
	if err != nil {
		return fmt.Errorf("entering the guard's PID namespace: %w", err)
	}
	return nil
}

// startGuard starts a guard with one user, in a user namespace of its own or in the
// host's. The thread that starts it lives as long as the guard, because the guard's
// parent-death signal comes at the end of that thread.
func startGuard(inUserNamespace bool) (*guard, error) {
	type result struct {
		g   *guard
		err error
	}
	started := make(chan result)
	// Ends when the guard is reaped and released; the last user to release it waits for
	// gone.
	onOwnThread(func() {
		g, err := newGuard(inUserNamespace)
		started <- result{g, err}
		if err == nil {
			g.keep()
		}
	})
	r := <-started
	return r.g, r.err
}

// keep waits for the guard's end and frees its resources. It holds its thread, which must
// live as long as the guard anyway.
func (g *guard) keep() {
	for {
		err := unix.Waitid(unix.P_PIDFD, g.pidfd, nil, unix.WEXITED, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	<-g.last
	for _, fd := range []int{g.pidfd, g.userns, g.pidns} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	close(g.gone)
}

// newGuard starts the guard program from the calling thread.
func newGuard(inUserNamespace bool) (*guard, error) {
	program := guardProgram()
	if program == nil {
		return nil, errors.New("there is no guard program for this processor architecture")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair for the guard: %w", err)
	}
	defer unix.Close(pair[1])
	g := &guard{link: pair[0], users: 1, userns: -1, pidns: -1, last: make(chan struct{}), gone: make(chan struct{})}
	if err := g.run(program, pair[1], inUserNamespace); err != nil {
		unix.Close(g.link)
		return nil, err
	}
	if inUserNamespace {
		if err := g.openNamespaces(); err != nil {
			unix.Close(g.link)
			close(g.last)
			g.keep()
			return nil, err
		}
	}
	return g, nil
}

// openNamespaces opens g's namespaces, so that others can enter them.
func (g *guard) openNamespaces() (err error) {
	for name, fd := range map[string]*int{"user": &g.userns, "pid": &g.pidns} {
		path := fmt.Sprintf("/proc/%d/ns/%s", g.pid, name)
		if *fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
	return nil
}

// run starts program from memory or, if that is forbidden, from a file.
func (g *guard) run(program []byte, link int, inUserNamespace bool) error {
	start := func(path string) error { return g.fork(path, link, inUserNamespace) }
	err := withMemoryProgram(program, 1, start)
	if err == nil {
		return nil
	}
	if f := probe.PIDNamespace(); !f.OK && !inUserNamespace {
		return errors.New("PID namespace: " + f.Detail)
	}
	fileErr := withFileProgram(program, start)
	if fileErr == nil {
		return nil
	}
	return fmt.Errorf("the guard program runs neither from memory (%w) nor from a file (%w)", err, fileErr)
}

// fork starts the program at path as the first process of a new PID namespace.
func (g *guard) fork(path string, link int, inUserNamespace bool) error {
	pidfd := -1
	attr := &syscall.ProcAttr{
		Dir:   "/", // keeps no file system busy
		Files: []uintptr{uintptr(link)},
		Sys: &syscall.SysProcAttr{
			Setsid:     true, // out of reach of the terminal's signals
			Cloneflags: unix.CLONE_NEWPID,
			Pdeathsig:  syscall.SIGKILL,
			PidFD:      &pidfd,
		},
	}
	if inUserNamespace {
		// The user is the same inside: the process may map only itself.
		attr.Sys.Cloneflags |= unix.CLONE_NEWUSER
		attr.Sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
		attr.Sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	}
	pid, err := forkExec(path, []string{"bullpen-guard"}, attr)
	if err != nil {
		return err
	}
	g.pid, g.pidfd = pid, pidfd
	return nil
}

// withMemoryProgram calls f with a path to program in a memory file. Its descriptor is
// not one of the first files, which a child that runs it replaces.
func withMemoryProgram(program []byte, files int, f func(path string) error) error {
	fd, err := unix.MemfdCreate("bullpen-guard", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before 6.3 every memory file can be executed
		fd, err = unix.MemfdCreate("bullpen-guard", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	defer unix.Close(fd)
	if n, err := unix.Write(fd, program); err != nil || n != len(program) {
		return fmt.Errorf("writing %d bytes to a memory file: wrote %d: %w", len(program), n, err)
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, files)
	if err != nil {
		return fmt.Errorf("a descriptor for a memory file: %w", err)
	}
	defer unix.Close(high)
	return f(fmt.Sprintf("/proc/self/fd/%d", high))
}

// withFileProgram calls f with a path to program in a file that is removed afterwards:
// for systems that forbid execution from memory.
func withFileProgram(program []byte, f func(path string) error) error {
	path, err := writeProgram(program)
	if path != "" {
		defer func() { _ = os.Remove(path) }()
	}
	if err != nil {
		return err
	}
	return f(path)
}

// writeProgram writes program to a new temporary file. No child may be started meanwhile:
// it would hold the file open for writing until its execve, and until then the file could
// not be executed.
func writeProgram(program []byte) (path string, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := os.CreateTemp("", "bullpen-guard-*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(program)
	return file.Name(), errors.Join(err, file.Chmod(0o700), file.Close())
}
