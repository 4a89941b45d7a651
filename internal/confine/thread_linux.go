package confine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// thread is the operating-system thread that starts children, which inherit the
// attributes of a profile from it. Little is done on it: it may be slow, since it has the
// priority and the CPUs of its children. With a sandbox each start has a new thread,
// which is not reused.
type thread struct {
	profile Profile
	guard   *guard      // nil: children get a parent-death signal instead
	sandbox *sandbox    // nil: none
	view    *view       // nil: none
	work    chan *start // taken only until quit is closed
	quit    chan struct{}
	gone    chan struct{} // closed when the last start is answered
	home    int           // the caller's namespace, for a start on its thread: see lend; -1: not used
	lent    sync.RWMutex  // read-held by starts on threads of callers
	// parents are threads that live as long as the child they have started, whose
	// parent-death signal comes at their end.
	parents sync.WaitGroup
}

// start is one request to a thread.
type start struct {
	spec  Spec      // complete
	files []uintptr // kept open by the caller until the answer comes
	adopt func(pid, pidfd int, release func()) *Child
	// unconfined is set for a process that puts its own children into the sandbox.
	unconfined bool
	// prepare asks for a Prepared instead of a child.
	prepare bool
	// entry are the files by which the child enters its control group if it cannot start
	// there. Starting in one of v2 takes clone3, which the filter of a sandbox must deny,
	// as it cannot see the flags.
	entry   []*os.File
	release func()       // for the thread to pass on: called when the child has ended; nil: none
	answer  chan started // holds 1: the answer never blocks the thread
}

type started struct {
	child    *Child
	prepared *Prepared
	err      error
}

// errThreadEnded means that the thread no longer accepts starts.
var errThreadEnded = errors.New("confine: the spawner thread has ended")

// newThread creates a thread with the attributes of p whose children start in the
// namespace of g and in the sandbox b, if these are not nil.
func newThread(p Profile, g *guard, b *sandbox) (*thread, error) {
	t := &thread{
		profile: p, guard: g, sandbox: b, home: -1,
		work: make(chan *start), quit: make(chan struct{}), gone: make(chan struct{}),
	}
	ready := make(chan error)
	// Ends when quit is closed, whose closer waits for gone; with a sandbox, at once.
	onOwnThread(func() {
		err := t.lend()
		if err == nil && b != nil {
			err = t.look()
		}
		ready <- err
		if err == nil && b == nil {
			t.run()
		}
	})
	if err := <-ready; err != nil {
		return nil, err
	}
	if b != nil {
		go t.distribute() // ends when quit is closed; its closer waits for gone
	}
	return t, nil
}

// apply applies the profile to the calling thread, except Strict.
func (t *thread) apply() error {
	if err := t.profile.apply(); err != nil {
		return err
	}
	if t.guard != nil && t.guard.userns < 0 {
		return t.guard.enter()
	}
	return nil
}

// look creates the view of a sandbox, on a thread that then ends. If each child creates
// its own, look tries whether that works.
func (t *thread) look() error {
	if t.guard != nil && t.guard.userns >= 0 {
		return t.tryStage()
	}
	if !t.sandbox.viewed {
		return nil
	}
	pid := 0
	if t.guard != nil {
		pid = t.guard.pid
	}
	v, err := newView(t.sandbox.grants, pid)
	if err != nil {
		return fmt.Errorf("confine: %w", &sandboxError{err})
	}
	t.view = v
	return nil
}

// run answers requests on the thread.
func (t *thread) run() {
	defer close(t.gone)
	for {
		select {
		case <-t.quit:
			t.lent.Lock() // waits for starts on callers' threads
			t.lent.Unlock()
			return
		case s := <-t.work:
			c, err := t.fork(s)
			s.answer <- started{child: c, err: err}
		}
	}
}

// distribute handles each request on a separate thread.
func (t *thread) distribute() {
	defer close(t.gone)
	var starts sync.WaitGroup
	defer starts.Wait()
	for {
		select {
		case <-t.quit:
			return
		case s := <-t.work:
			starts.Add(1)
			t.parents.Add(1)
			// Ends with the start or, if a parent-death signal is needed, with the child;
			// Close waits for both.
			onOwnThread(func() {
				defer t.parents.Done()
				answer := t.single(s)
				s.answer <- answer
				starts.Done()
				if answer.child != nil && t.guard == nil {
					<-answer.child.ended
					if s.unconfined {
						<-t.quit // a fork server's children are children of this thread too
					}
				}
			})
		}
	}
}

// single handles one request in the sandbox, on a thread that is used for nothing else.
func (t *thread) single(s *start) started {
	if err := t.apply(); err != nil {
		return started{err: err}
	}
	if t.guard != nil && t.guard.userns >= 0 {
		c, err := t.stage(s)
		return started{child: c, err: err}
	}
	if s.unconfined {
		c, err := t.fork(s)
		return started{child: c, err: err}
	}
	release := func() {}
	if t.view != nil && s.spec.Temp != "" {
		var err error
		if release, err = t.view.addFolder(s.spec.Temp); err != nil {
			return started{err: &sandboxError{err}}
		}
	}
	answer := t.inside(s, release)
	if answer.err != nil {
		release()
	}
	return answer
}

// inside is single with a folder for the temporary mount, which release removes.
func (t *thread) inside(s *start, release func()) started {
	b := t.sandbox
	fail := func(err error) started { return started{err: &sandboxError{err}} }
	if err := b.enter(t.view, s.spec.Temp, s.spec.Network); err != nil {
		return fail(err)
	}
	if s.prepare {
		p, err := b.prepare(t.view, s.spec.Temp)
		if err != nil {
			return fail(err)
		}
		p.release = release
		return started{prepared: p}
	}
	ruleset, err := b.ruleset(t.view, s.spec.Temp)
	if err != nil {
		return fail(err)
	}
	err = b.restrict(ruleset)
	if ruleset >= 0 {
		unix.Close(ruleset)
	}
	if err != nil {
		return fail(err)
	}
	s.release = release
	c, err := t.fork(s)
	return started{child: c, err: err}
}

// do passes s to the thread and returns its answer.
func (t *thread) do(s *start) started {
	if t.home >= 0 && s.spec.Group == nil {
		return t.onCaller(s)
	}
	select {
	case t.work <- s:
	case <-t.quit:
		return started{err: errThreadEnded}
	}
	return <-s.answer
}

// close releases the resources of t, after gone.
func (t *thread) close() {
	if t.view != nil {
		t.view.close()
	}
	if t.home >= 0 {
		unix.Close(t.home)
	}
}

func (t *thread) fork(s *start) (*Child, error) {
	pidfd := -1
	sys := &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}
	if t.guard == nil {
		// Not in the namespace of a guard: there package syscall, which sees no parent,
		// would take the host for dead and kill the child.
		sys.Pdeathsig = syscall.SIGKILL
	}
	if err := s.spec.Group.enter(sys); err != nil {
		return nil, err
	}
	late := sys.UseCgroupFD && len(s.entry) > 0
	if late {
		sys.UseCgroupFD = false
	}
	pid, err := forkExec(s.spec.Path, s.spec.Args, &syscall.ProcAttr{
		Dir: s.spec.Dir, Env: s.spec.Env, Files: s.files, Sys: sys,
	})
	if err == nil && late {
		err = s.attach(pid, pidfd)
	}
	if err := s.spec.Group.leave(err); err != nil {
		return nil, err
	}
	return s.adopt(pid, pidfd, s.release), nil
}

// attach moves a new process into its control group, or kills it.
func (s *start) attach(pid, pidfd int) error {
	for _, f := range s.entry {
		if _, err := f.WriteString(strconv.Itoa(pid)); err != nil {
			err = fmt.Errorf("its control group: %w", err)
			_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // our child, which cannot have been reaped
			_ = waitExit(pidfd, unix.WEXITED, nil, nil)
			unix.Close(pidfd)
			return &sandboxError{err}
		}
	}
	return nil
}

// namespaceEnded reports whether err comes from a guard that has died: the kernel then
// refuses to create processes in its namespace, or to enter it.
func (t *thread) namespaceEnded(err error) bool {
	return t.guard != nil && (errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ESRCH)) && t.guard.dying()
}

// apply applies p to the calling thread, except Guard and Strict.
func (p Profile) apply() error {
	if err := p.IOPriority.set(); err != nil {
		return err
	}
	// With Strict it comes last: under some security modules a thread with no_new_privs
	// cannot enter a namespace.
	if p.NoNewPrivs && p.Strict == nil {
		if err := errors.Join(setNoNewPrivs(), clearAmbient()); err != nil {
			return fmt.Errorf("confine: %w", err)
		}
	}
	if p.NiceSet {
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, p.Nice); err != nil {
			return fmt.Errorf("confine: nice value %d: %w (raising the priority needs CAP_SYS_NICE or a limit RLIMIT_NICE)", p.Nice, err)
		}
	}
	if len(p.CPUs) == 0 {
		return nil
	}
	var want, got unix.CPUSet
	for _, c := range p.CPUs {
		want.Set(c)
		if !want.IsSet(c) {
			return fmt.Errorf("confine: CPU %d: it does not exist", c)
		}
	}
	if err := unix.SchedSetaffinity(0, &want); err != nil {
		return fmt.Errorf("confine: CPUs %v: %w (none of them may be used here)", p.CPUs, err)
	}
	if err := unix.SchedGetaffinity(0, &got); err != nil {
		return fmt.Errorf("confine: CPUs %v: %w", p.CPUs, err)
	}
	for _, c := range p.CPUs {
		if !got.IsSet(c) {
			return fmt.Errorf("confine: CPU %d: it does not exist, or may not be used here", c)
		}
	}
	return nil
}
