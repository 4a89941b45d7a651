package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// prepared creates the sandbox, if one is wanted, and the first thread.
func (s *Spawner) prepared() (*thread, error) {
	p := s.profile.Strict
	if p == nil {
		return s.firstThread()
	}
	why := ""
	if s.profile.Guard && !p.ForkServer && !p.Loopback && mayUseUserNamespace() {
		t, err := s.unprivileged(*p)
		if err == nil || !errors.As(err, new(*sandboxError)) {
			return t, err
		}
		why = fmt.Sprintf("user namespace (%v): the following is not possible in one", err)
		s.sandbox.close()
	}
	guarded := s.profile.Guard && probe.PIDNamespace().OK
	b, err := newSandbox(*p, guarded, false)
	if err != nil {
		return nil, err
	}
	s.sandbox = b
	if s.profile.Guard && !guarded {
		b.lacks("PID namespace", probe.PIDNamespace().Detail, "a child can outlive the host")
	}
	if why != "" {
		b.missing = slices.Insert(b.missing, 0, why)
	}
	if len(b.missing) > 0 && !p.BestEffort {
		return nil, missingError(b.missing)
	}
	t, err := s.firstThread()
	if err != nil && b.viewed && p.BestEffort && errors.As(err, new(*sandboxError)) {
		s.why = ""
		if err = b.withoutView(err.Error()); err == nil {
			t, err = s.firstThread()
		}
	}
	if err != nil {
		return nil, err
	}
	if guarded && t.guard == nil {
		b.lacks("PID namespace", s.why, "a child can outlive the host")
	}
	if t.view != nil && t.view.open != "" {
		b.lacks("a /proc of its own", t.view.open, "a child sees the names of all processes")
	}
	return s.orRefuse(t)
}

// orRefuse returns t, or an error if something required is missing.
func (s *Spawner) orRefuse(t *thread) (*thread, error) {
	missing := s.sandbox.missing
	if len(missing) == 0 || s.profile.Strict.BestEffort {
		return t, nil
	}
	close(t.quit)
	<-t.gone
	t.close()
	if t.guard != nil {
		t.guard.release()
	}
	return nil, missingError(missing)
}

// mayUseUserNamespace reports whether a sandbox is possible only in a user namespace.
func mayUseUserNamespace() bool {
	// Not for root: it would not own its files outside of the namespace, and its children
	// must not read what only root may read.
	return os.Geteuid() != 0 && newScript() != nil && !(probe.MountNamespace().OK && probe.PIDNamespace().OK) && probe.UserNamespace().OK
}

// unprivileged creates the sandbox and the first thread in a user namespace. A
// sandboxError means that this is not possible here.
func (s *Spawner) unprivileged(p Strict) (*thread, error) {
	b, err := newSandbox(p, true, true)
	if err != nil {
		return nil, err
	}
	s.sandbox = b
	t, err := s.guardedThread()
	if err != nil {
		if !errors.As(err, new(*sandboxError)) {
			err = &sandboxError{err}
		}
		return nil, err
	}
	return s.orRefuse(t)
}

// Missing lists what the sandbox lacks on this system, in sentences for people; it is
// empty without a sandbox. Without [Strict].BestEffort NewSpawner fails if something is
// missing, except what only newer kernels support: before Linux 6.12 children under the
// same guard can send signals to each other.
func (s *Spawner) Missing() []string {
	if s.sandbox == nil {
		return nil
	}
	return slices.Concat(s.sandbox.missing, s.sandbox.weaker)
}

// Confined reports what children are kept from. noFiles: they can neither read nor change
// the content of files outside of what the sandbox grants. noNetwork: they reach nothing
// over a network, not even on this machine.
func (s *Spawner) Confined() (noFiles, noNetwork bool) {
	if s.sandbox == nil {
		return false, false
	}
	return s.sandbox.confined()
}

// Prepare creates what a process needs to put a child of its own into the sandbox, with
// the temporary folder temp and the network of Spec.Network; it is nil without a sandbox. The process itself must be
// started unconfined. It takes about half a millisecond. The caller must close the
// result.
func (s *Spawner) Prepare(temp string, network *Network) (*Prepared, error) {
	if s.sandbox == nil {
		return nil, nil //nolint:nilnil // there is nothing to prepare
	}
	if err := s.sandbox.checkTemp(temp); err != nil {
		return nil, err
	}
	if err := s.sandbox.checkNetwork(network); err != nil {
		return nil, err
	}
	r := &start{spec: Spec{Temp: temp, Network: network}, prepare: true, answer: make(chan started, 1)}
	answer, err := s.ask(r)
	if err != nil {
		if errors.As(err, new(*sandboxError)) {
			err = fmt.Errorf("confine: %w", err)
		}
		return nil, err
	}
	return answer.prepared, nil
}

// startError explains why r failed, and how a sandbox may be the reason.
func (s *Spawner) startError(r *start, err error) error {
	if s.sandbox != nil && !r.unconfined && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES)) && !errors.As(err, new(*sandboxError)) {
		if _, statErr := os.Stat(r.spec.Path); statErr == nil {
			return fmt.Errorf("confine: start %s: %w (the sandbox has to grant the program, its interpreter and its folder to be read)", r.spec.Path, err)
		}
	}
	return startError(r.spec, err)
}
