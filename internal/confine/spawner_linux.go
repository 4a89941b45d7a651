package confine

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// Spawner starts children with the attributes of one Profile. All methods are safe for
// concurrent use. The starts of one Spawner run one after the other, each in about half a
// millisecond; those in a sandbox run concurrently and take about a millisecond.
type Spawner struct {
	profile Profile
	sandbox *sandbox // nil: none
	null    int      // descriptor of /dev/null, opened before any restriction
	why     string   // why children are not orphan-proof; empty if they are

	renewing sync.Mutex // held while current is replaced; taken before mu
	mu       sync.Mutex
	current  *thread              // guarded by mu
	retired  []*thread            // replaced ones, whose guards died; guarded by mu
	children map[*Child]struct{}  // not yet waited for; guarded by mu
	servers  map[*Server]struct{} // not yet closed; guarded by mu
	closed   bool                 // guarded by mu

	ended    chan struct{} // closed when Close has ended
	closeErr error         // written before ended is closed
}

// NewSpawner creates a Spawner; the caller must close it. If the profile asks for
// something impossible, it fails with an error that names it. An impossible guard is an
// error only with [Strict]; otherwise see [Spawner.OrphanProof]. NewSpawner costs one
// thread, and one more with a small process for the guard. It takes about a millisecond,
// or ten with a sandbox.
func NewSpawner(p Profile) (*Spawner, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if f := probe.Pidfd(); !f.OK {
		return nil, fmt.Errorf("confine: this system cannot watch processes: %s: %w", f.Detail, errors.ErrUnsupported)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("confine: %w", &os.PathError{Op: "open", Path: os.DevNull, Err: err})
	}
	s := &Spawner{profile: p, null: null, children: make(map[*Child]struct{}), ended: make(chan struct{})}
	if s.current, err = s.prepared(); err != nil {
		if s.sandbox != nil {
			s.sandbox.close()
		}
		unix.Close(null)
		return nil, err
	}
	return s, nil
}

// firstThread creates a guarded thread if that is wanted and possible.
func (s *Spawner) firstThread() (*thread, error) {
	const consequence = "; a detached process of a worker can outlive a killed host"
	if !s.profile.Guard {
		s.why = "no guard was requested" + consequence
		return newThread(s.profile, nil, s.sandbox)
	}
	t, err := s.guardedThread()
	if err == nil {
		return t, nil
	}
	// The cause is either the guard or the profile, which then fails again.
	s.why = err.Error() + consequence
	return newThread(s.profile, nil, s.sandbox)
}

func (s *Spawner) guardedThread() (*thread, error) {
	var g *guard
	var err error
	if s.sandbox != nil && s.sandbox.unprivileged {
		g, err = startGuard(true)
	} else {
		g, err = acquireGuard(s.profile.GuardAlone)
	}
	if err != nil {
		return nil, err
	}
	t, err := newThread(s.profile, g, s.sandbox)
	if err != nil {
		g.release()
		return nil, err
	}
	return t, nil
}

// OrphanProof reports whether no process that a child starts, detached or not, can
// outlive this process, however it ends. If not, why is a sentence for people.
func (s *Spawner) OrphanProof() (ok bool, why string) { return s.why == "", s.why }

// Start starts a child and returns when its program runs, or could not be run. The caller
// must call [Child.Wait]. If the guard was killed from outside, and with it all children,
// Start creates a new one. After Close the error is [ErrClosed].
func (s *Spawner) Start(spec Spec) (*Child, error) {
	spec, err := spec.complete()
	if err != nil {
		return nil, err
	}
	if s.sandbox != nil {
		if err := errors.Join(s.sandbox.checkTemp(spec.Temp), s.sandbox.checkNetwork(spec.Network)); err != nil {
			return nil, err
		}
	}
	r := &start{spec: spec}
	if s.sandbox != nil && (len(s.sandbox.filter) > 0 || s.sandbox.unprivileged) && spec.Group != nil {
		if r.entry, err = spec.Group.Entry(); err != nil {
			return nil, err
		}
	}
	return s.begin(r)
}

// begin starts a child as described by r, whose spec is complete.
func (s *Spawner) begin(r *start) (*Child, error) {
	var child *Child
	err := withDescriptors(r.spec.Files, s.null, make([]uintptr, 0, len(r.spec.Files)), func(files []uintptr) error {
		r.files, r.adopt, r.answer = files, s.adopt, make(chan started, 1)
		answer, err := s.ask(r)
		child = answer.child
		return err
	})
	if err != nil {
		if errors.Is(err, ErrClosed) || errors.As(err, new(*renewError)) {
			return nil, err
		}
		return nil, s.startError(r, err)
	}
	s.finish(child)
	return child, nil
}

// finish sets the attributes that a child does not inherit.
func (s *Spawner) finish(c *Child) {
	if s.profile.NiceSet && s.profile.Nice != 0 && autogrouped() {
		c.niceSession(s.profile.Nice, autogroupTries)
	}
	if s.profile.NoCore {
		c.noCore()
	}
}

// renewError is an error of replacing a thread.
type renewError struct{ err error }

func (e *renewError) Error() string { return e.err.Error() }
func (e *renewError) Unwrap() error { return e.err }

// ask passes r to the current thread, or to a new one if its guard has died.
func (s *Spawner) ask(r *start) (started, error) {
	for renewed := false; ; {
		s.mu.Lock()
		t, closed := s.current, s.closed
		s.mu.Unlock()
		if closed {
			return started{}, ErrClosed
		}
		answer := t.do(r)
		switch {
		case answer.err == nil:
			return answer, nil
		case errors.Is(answer.err, errThreadEnded): // replaced or closed meanwhile: try again
		case !renewed && t.namespaceEnded(answer.err):
			renewed = true
			if err := s.renew(t); err != nil {
				return started{}, err
			}
		default:
			return started{}, answer.err
		}
	}
}

// renew replaces the thread dead, whose guard has died, unless another caller has done
// so.
func (s *Spawner) renew(dead *thread) error {
	s.renewing.Lock()
	defer s.renewing.Unlock()
	s.mu.Lock()
	current, closed := s.current, s.closed
	s.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if current != dead {
		return nil
	}
	t, err := s.guardedThread()
	if err != nil {
		return &renewError{fmt.Errorf("confine: the guard was killed and cannot be replaced: %w", err)}
	}
	s.mu.Lock()
	s.current = t
	s.retired = append(s.retired, dead)
	s.mu.Unlock()
	close(dead.quit)
	return nil
}

// adopt makes the Child of a new process. It runs on the spawner thread, and so before
// the Close that waits for that thread. When the child has ended, release, if not nil, is
// called.
func (s *Spawner) adopt(pid, pidfd int, release func()) *Child {
	c := newChild(pid, pidfd, func(c *Child) {
		if release != nil {
			release()
		}
		s.forget(c)
	})
	s.mu.Lock()
	s.children[c] = struct{}{}
	s.mu.Unlock()
	return c
}

func (s *Spawner) forget(c *Child) {
	s.mu.Lock()
	delete(s.children, c)
	s.mu.Unlock()
}

// Close kills all children and waits for them, even if another caller waits too. Then it
// ends the guard, if no other Spawner uses it, and with it everything left in its
// namespace. Calls of Wait in progress return. Close is idempotent: later and concurrent
// calls wait for the first and return its result. It takes at most 5 seconds; then the
// error names the processes that did not die.
func (s *Spawner) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.ended
		return s.closeErr
	}
	s.closed = true
	s.mu.Unlock()
	s.closeErr = s.end()
	close(s.ended)
	return s.closeErr
}

// end does the work of Close, once.
func (s *Spawner) end() error {
	s.renewing.Lock() // waits for a renewal in progress
	defer s.renewing.Unlock()
	serversErr := s.endServers() // they start no more children
	s.mu.Lock()
	threads := append(s.retired, s.current)
	close(s.current.quit)
	s.mu.Unlock()
	for _, t := range threads {
		<-t.gone // waits for a start in progress, which is bounded by one execve
		t.close()
	}
	unix.Close(s.null)
	if s.sandbox != nil {
		s.sandbox.close()
	}

	s.mu.Lock()
	children := make([]*Child, 0, len(s.children))
	for c := range s.children {
		children = append(children, c)
	}
	s.mu.Unlock()
	for _, c := range children {
		_ = c.Kill() // it may have ended by itself
		// Ends with the child; waited for below.
		go func() { _, _ = c.Wait() }()
	}
	// A guard ends only after the children in its namespace are reaped.
	var last []*guard
	for _, t := range threads {
		if t.guard != nil && t.guard.release() {
			last = append(last, t.guard)
		}
	}
	if err := errors.Join(serversErr, awaitEnd(children, last, time.NewTimer(closeGrace))); err != nil {
		return err
	}
	for _, t := range threads {
		t.parents.Wait() // their children have ended
	}
	return nil
}

// awaitEnd waits until all have ended or the timer fires.
func awaitEnd(children []*Child, guards []*guard, timer *time.Timer) error {
	defer timer.Stop()
	late := false
	wait := func(ended <-chan struct{}) bool {
		if !late {
			select {
			case <-ended:
				return true
			case <-timer.C:
				late = true
			}
		}
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	var stuck []error
	for _, c := range children {
		if !wait(c.ended) {
			stuck = append(stuck, fmt.Errorf("confine: process %d did not end within %v after it was killed%s", c.pid, closeGrace, processState(c.pid)))
		}
	}
	for _, g := range guards {
		if !wait(g.gone) {
			stuck = append(stuck, fmt.Errorf("confine: the guard, process %d, did not end within %v: a process in its PID namespace does not die", g.pid, closeGrace))
		}
	}
	return errors.Join(stuck...)
}
