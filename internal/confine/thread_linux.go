package confine

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// thread is the operating-system thread that children are started from, and
// from which they inherit the attributes of a profile. Little is done on it:
// it may be slow, since it has the priority and the CPUs of its children.
type thread struct {
	guard *guard      // nil: children get a parent-death signal instead
	work  chan *start // taken only until quit is closed
	quit  chan struct{}
	gone  chan struct{} // closed when the last start is answered
}

// start is one request to a thread.
type start struct {
	spec  Spec      // complete
	files []uintptr // kept open by the asker until the answer is there
	adopt func(pid, pidfd int) *Child
	child chan started // holds 1: the answer never blocks the thread
}

type started struct {
	child *Child
	err   error
}

// errThreadEnded says that the thread took no more work.
var errThreadEnded = errors.New("confine: the spawner thread has ended")

// newThread makes a thread with the attributes of p whose children are born
// in the namespace of g, if it is not nil.
func newThread(p Profile, g *guard) (*thread, error) {
	t := &thread{
		guard: g, work: make(chan *start), quit: make(chan struct{}), gone: make(chan struct{}),
	}
	ready := make(chan error)
	// Ends when quit is closed; who closes it waits for gone.
	onOwnThread(func() {
		err := p.apply()
		if err == nil && g != nil {
			err = g.enter()
		}
		ready <- err
		if err == nil {
			t.run()
		}
	})
	if err := <-ready; err != nil {
		return nil, err
	}
	return t, nil
}

// run answers requests.
func (t *thread) run() {
	defer close(t.gone)
	for {
		select {
		case <-t.quit:
			return
		case s := <-t.work:
			c, err := t.fork(s)
			s.child <- started{c, err}
		}
	}
}

// do has the thread start s.
func (t *thread) do(s *start) (*Child, error) {
	select {
	case t.work <- s:
	case <-t.quit:
		return nil, errThreadEnded
	}
	r := <-s.child
	return r.child, r.err
}

func (t *thread) fork(s *start) (*Child, error) {
	pidfd := -1
	sys := &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}
	if t.guard == nil {
		// Not in the namespace of a guard: there package syscall, which sees
		// no parent, would take the host for dead and kill the child.
		sys.Pdeathsig = syscall.SIGKILL
	}
	pid, err := syscall.ForkExec(s.spec.Path, s.spec.Args, &syscall.ProcAttr{
		Dir: s.spec.Dir, Env: s.spec.Env, Files: s.files, Sys: sys,
	})
	if err != nil {
		return nil, err
	}
	return s.adopt(pid, pidfd), nil
}

// namespaceEnded tells whether err comes from a guard that has died: the
// kernel then makes no more processes in its namespace.
func (t *thread) namespaceEnded(err error) bool {
	return t.guard != nil && (errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EINVAL)) && t.guard.dying()
}

// apply sets the priority and the CPUs of the calling thread.
func (p Profile) apply() error {
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
			return fmt.Errorf("confine: CPU %d: there is no such CPU", c)
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
			return fmt.Errorf("confine: CPU %d: there is no such CPU, or it may not be used here", c)
		}
	}
	return nil
}
