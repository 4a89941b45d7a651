//go:build !linux

package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Spawner starts children with the attributes of one Profile. All methods are safe for
// concurrent use.
type Spawner struct {
	profile Profile
	null    *os.File

	starting sync.RWMutex // read-held by each start in progress; write-held once, by Close
	closed   bool         // guarded by starting

	mu       sync.Mutex
	children map[*Child]struct{} // not yet waited for; guarded by mu

	ended    chan struct{} // closed when Close has ended
	closeErr error         // written before ended is closed
}

// NewSpawner creates a Spawner; the caller must close it. This system does not support
// CPUs, NoNewPrivs, NoCore, IOPriority and Strict.
func NewSpawner(p Profile) (*Spawner, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if len(p.CPUs) > 0 {
		return nil, fmt.Errorf("confine: binding to CPUs: %w", ErrUnsupported)
	}
	for part, wanted := range map[string]bool{
		"no_new_privs": p.NoNewPrivs, "no core files": p.NoCore, "an I/O priority": p.IOPriority != IONormal, "a strict sandbox": p.Strict != nil,
	} {
		if wanted {
			return nil, fmt.Errorf("confine: %s: %w", part, ErrUnsupported)
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("confine: %w", err)
	}
	return &Spawner{profile: p, null: null, children: make(map[*Child]struct{}), ended: make(chan struct{})}, nil
}

// OrphanProof returns false on this system.
func (s *Spawner) OrphanProof() (ok bool, why string) {
	return false, runtime.GOOS + " cannot end children with their host; they can outlive a killed host"
}

// Missing returns nil: this system has no sandbox.
func (s *Spawner) Missing() []string { return nil }

// Confined returns false on this system.
func (s *Spawner) Confined() (noFiles, noNetwork bool) { return false, false }

// Prepare returns nil: this system has no sandbox.
func (s *Spawner) Prepare(string, *Network) (*Prepared, error) { return nil, nil } //nolint:nilnil // there is nothing to prepare

// Start starts a child and returns when its program runs, or could not be run. The caller
// must call [Child.Wait]. After Close the error is [ErrClosed].
func (s *Spawner) Start(spec Spec) (*Child, error) {
	spec, err := spec.complete()
	if err != nil {
		return nil, err
	}
	if spec.Group != nil {
		return nil, ErrUnsupported
	}
	files := make([]*os.File, len(spec.Files))
	for i, f := range spec.Files {
		if files[i] = f; f == nil {
			files[i] = s.null
		}
	}
	s.starting.RLock()
	defer s.starting.RUnlock()
	if s.closed {
		return nil, ErrClosed
	}
	if err := CloseOnExec(); err != nil {
		return nil, err
	}
	process, err := os.StartProcess(spec.Path, spec.Args, &os.ProcAttr{
		Dir: spec.Dir, Env: spec.Env, Files: files, Sys: attributes(s.profile),
	})
	if err != nil {
		return nil, startError(spec, err)
	}
	c := &Child{process: process, after: s.forget, ended: make(chan struct{})}
	s.mu.Lock()
	s.children[c] = struct{}{}
	s.mu.Unlock()
	afterStart(s.profile, process.Pid)
	return c, nil
}

func (s *Spawner) forget(c *Child) {
	s.mu.Lock()
	delete(s.children, c)
	s.mu.Unlock()
}

// Close kills all children and waits for them, even if another caller waits too. It is
// idempotent: later and concurrent calls wait for the first and return its result. It
// takes at most 5 seconds; then the error names the processes that did not die.
func (s *Spawner) Close() error {
	s.starting.Lock()
	first := !s.closed
	s.closed = true
	s.starting.Unlock()
	if !first {
		<-s.ended
		return s.closeErr
	}
	s.closeErr = s.end()
	close(s.ended)
	return s.closeErr
}

// end does the work of Close, once.
func (s *Spawner) end() error {
	s.mu.Lock()
	children := make([]*Child, 0, len(s.children))
	for c := range s.children {
		children = append(children, c)
	}
	s.mu.Unlock()
	for _, c := range children {
		_ = c.Kill() // it may have ended by itself
		// Ends with the child; waited for below.
		go c.Wait()
	}
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	for i, c := range children {
		select {
		case <-c.ended:
		case <-timer.C:
			return errors.Join(fmt.Errorf("confine: process %d, and perhaps %d others, did not end within %v after they were killed", c.Pid(), len(children)-i-1, closeGrace), s.null.Close())
		}
	}
	return s.null.Close()
}

// Child is a started process. All methods are safe for concurrent use.
type Child struct {
	process *os.Process
	after   func(*Child) // called once, when reaped

	once  sync.Once     // the first caller waits, the others wait for it
	exit  Exit          // written in once
	err   error         // written in once
	ended chan struct{} // closed at the end of once
}

// Pid returns the process's number.
func (c *Child) Pid() int { return c.process.Pid }

// Signal sends sig to the process alone. It returns os.ErrProcessDone when
// the process has been waited for.
func (c *Child) Signal(sig syscall.Signal) error { return c.process.Signal(sig) }

// Kill kills the process and, if the system has them, its process group. It returns
// os.ErrProcessDone when the process has been waited for.
func (c *Child) Kill() error {
	select {
	case <-c.ended:
		return os.ErrProcessDone
	default:
	}
	killGroup(c.process.Pid)
	return c.process.Kill()
}

// Terminate asks the process and its process group to end. If the system has no way to
// ask, it kills them.
func (c *Child) Terminate() error {
	select {
	case <-c.ended:
		return os.ErrProcessDone
	default:
	}
	if terminateGroup(c.process.Pid) {
		return nil
	}
	return c.Kill()
}

// SetOOMScore returns [ErrUnsupported].
func (c *Child) SetOOMScore(int) error { return ErrUnsupported }

// Ended reports whether Wait has seen the end of the process.
func (c *Child) Ended() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// Wait waits until the process has ended, kills what is left of its process group, and
// returns how it ended. On this system it holds a thread. Later calls return the same
// values.
func (c *Child) Wait() (Exit, error) {
	c.once.Do(func() {
		state, err := c.process.Wait()
		if err != nil {
			c.exit.Code, c.err = -1, fmt.Errorf("confine: %w", err)
		} else {
			c.exit = exitOf(state)
		}
		killGroup(c.process.Pid)
		close(c.ended)
		c.after(c)
	})
	return c.exit, c.err
}

// RSS returns [ErrUnsupported].
func RSS(int) (int64, error) { return 0, ErrUnsupported }

// Memory is not supported on this system.
type Memory struct{}

// NewMemory returns [ErrUnsupported].
func NewMemory(string, int) (*Memory, error) { return nil, ErrUnsupported }

// Bytes returns nil.
func (m *Memory) Bytes() []byte { return nil }

// File returns nil.
func (m *Memory) File() *os.File { return nil }

// Close does nothing.
func (m *Memory) Close() error { return nil }

// WaitsForInput returns false on this system.
func WaitsForInput(int) bool { return false }
