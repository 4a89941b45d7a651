package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// sandbox is what the Strict of one Spawner needs on this system. It is created once and
// is immutable.
type sandbox struct {
	strict Strict // with its defaults filled in
	grants *grants
	proc   int               // the host's /proc, O_PATH
	land   *landlock         // nil: not supported
	filter []unix.SockFilter // empty: not supported

	unprivileged bool // children come from stages, in a user namespace
	viewed       bool // each child has a mount namespace
	separated    bool // each child has IPC and UTS namespaces
	// network is an empty network namespace, which children share if nothing in it lets
	// them communicate; -1: none. With ownNetwork each child has its own, which costs 0.4
	// ms.
	network    int
	ownNetwork bool

	missing []string // what this system lacks, for people
	weaker  []string // what it does less well than newer systems
}

const withoutView = "a child can see the names of outside files and processes, can change modes and times of its user's files, and has no /dev/shm"

// shared says which resources of the host the filter must protect from children, since no
// namespace does, and which ones children may use.
type shared struct {
	network    bool // children may use the network
	interfaces bool // no network namespace
	keys       bool // no IPC namespace
	files      bool // no mount namespace
}

// newSandbox detects what the system supports. With guarded, children are in a PID
// namespace; with unprivileged they are in a user namespace, in which they may have all
// others.
func newSandbox(s Strict, guarded, unprivileged bool) (*sandbox, error) {
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	b := &sandbox{strict: s, proc: -1, network: -1, unprivileged: unprivileged}
	if b.grants, err = newGrants(s); err != nil {
		return nil, err
	}
	if b.proc, err = unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		b.close()
		return nil, fmt.Errorf("confine: %w", &os.PathError{Op: "open", Path: "/proc", Err: err})
	}
	b.findLandlock(guarded)
	b.findNamespaces()
	b.findFilter()
	if !b.viewed {
		if err := b.withoutView(probe.MountNamespace().Detail); err != nil {
			b.close()
			return nil, fmt.Errorf("confine: %w", err)
		}
	}
	b.findNetwork()
	return b, nil
}

// lacks records that the part name is missing, and what follows from that.
func (b *sandbox) lacks(name, detail, consequence string) {
	b.missing = append(b.missing, fmt.Sprintf("%s (%s): %s", name, detail, consequence))
}

func (b *sandbox) findLandlock(guarded bool) {
	const consequence = "a child can open all files that it can see"
	if f := probe.Landlock(); !f.OK {
		b.lacks("landlock", f.Detail, consequence)
		return
	}
	land, err := newLandlock(b.strict.Network, b.strict.Network || b.strict.Loopback, guarded)
	if err != nil {
		b.lacks("landlock", err.Error(), consequence)
		return
	}
	b.land = land
	if land.abi >= landABIScope {
		return
	}
	name := fmt.Sprintf("landlock scopes (this kernel has ABI %d; they need ABI %d, Linux 6.12)", land.abi, landABIScope)
	if guarded {
		b.weaker = append(b.weaker, name+": children under the same guard can send signals to each other")
	} else {
		b.missing = append(b.missing, name+", nor a guard: a child can send signals to all processes of its user")
	}
}

func (b *sandbox) findNamespaces() {
	b.viewed = b.unprivileged || probe.MountNamespace().OK
	b.separated = b.unprivileged || probe.IPCNamespace().OK
}

func (b *sandbox) findFilter() {
	const consequence = "a child can use all system calls, including often attacked ones"
	var err error
	if f := probe.Seccomp(); !f.OK {
		err = errors.New(f.Detail)
	} else {
		b.filter, err = newFilter(b.shared())
	}
	if err == nil {
		return
	}
	b.lacks("system-call filter", err.Error(), consequence)
	if !b.separated {
		b.lacks("IPC and UTS namespaces", probe.IPCNamespace().Detail, "a child can use the System V shared memory and the message queues of its user")
	}
}

// shared returns what the filter must do instead of namespaces.
func (b *sandbox) shared() shared {
	return shared{network: b.strict.Network, interfaces: !b.unprivileged && !probe.NetworkNamespace().OK, keys: !b.separated, files: !b.viewed}
}

// withoutView gives up the mount namespace, for the reason why.
func (b *sandbox) withoutView(why string) error {
	b.viewed = false
	consequence := withoutView
	if b.strict.Network || len(b.filter) == 0 {
		consequence += "; it can connect to Unix sockets there"
	}
	b.lacks("mount namespace", why, consequence)
	if len(b.filter) == 0 {
		return nil
	}
	filter, err := newFilter(b.shared())
	b.filter = filter
	return err
}

// findNetwork is called last: a shared network namespace needs the other parts.
func (b *sandbox) findNetwork() {
	if b.strict.Network || b.strict.Loopback && probe.NetworkNamespace().OK {
		return
	}
	if b.unprivileged {
		b.ownNetwork = true
		return
	}
	if f := probe.NetworkNamespace(); !f.OK {
		if len(b.filter) == 0 {
			b.lacks("network namespace", f.Detail, "a child can use the network of the host")
		} else if b.land == nil || b.land.abi < landABIScope {
			b.lacks("network namespace", f.Detail, "a child has no Internet, but can connect to abstract Unix sockets of the host")
		}
		return
	}
	b.ownNetwork = true
	if len(b.filter) == 0 || b.land == nil || b.land.abi < landABIScope {
		return
	}
	if fd, err := newNetwork(b.proc); err == nil { // otherwise each child tries for itself
		b.network, b.ownNetwork = fd, false
	}
}

// newNetwork creates a network namespace in which no interface is up.
func newNetwork(proc int) (fd int, err error) {
	done := make(chan struct{})
	onOwnThread(func() { // ends at once; waited for below
		defer close(done)
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			fd, err = unix.Openat(proc, "thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
	})
	<-done
	return fd, err
}

func (b *sandbox) close() {
	b.grants.close()
	for _, fd := range []int{b.proc, b.network} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// confined returns what children are kept from.
func (b *sandbox) confined() (noFiles, noNetwork bool) {
	const withTruncate = 3 // the first version of Landlock that controls truncation
	noFiles = b.viewed || b.land != nil && b.land.abi >= withTruncate
	return noFiles, !b.strict.Network && (b.network >= 0 || b.ownNetwork || b.strict.Loopback || len(b.filter) > 0)
}

// checkTemp returns an error if path cannot be the temporary folder of a child of b.
func (b *sandbox) checkTemp(path string) error {
	if path == "" {
		return nil
	}
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
		return fmt.Errorf("confine: Spec.Temp %q is not the clean absolute path of a folder", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return fmt.Errorf("confine: Spec.Temp: %w", err)
	}
	if real != path {
		return fmt.Errorf("confine: Spec.Temp %s contains a symbolic link: use %s", path, real)
	}
	return nil
}

// checkNetwork returns an error if a child of b cannot have that network.
func (b *sandbox) checkNetwork(n *Network) error {
	if b.strict.Loopback != (n != nil) {
		return errors.New("confine: Spec.Network is for children with Strict.Loopback, and these need it")
	}
	return nil
}

// enter moves the calling thread, which must be a separate one that then ends, into the
// namespaces of a child.
func (b *sandbox) enter(v *view, temp string, network *Network) error {
	flags := 0
	if v != nil {
		flags |= unix.CLONE_FS // without it a thread cannot enter a mount namespace
	}
	if b.separated {
		flags |= unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	}
	if b.ownNetwork {
		flags |= unix.CLONE_NEWNET
	}
	if flags != 0 { // some containers forbid even what needs no rights
		if err := unix.Unshare(flags); err != nil {
			return fmt.Errorf("namespaces: %w", err)
		}
	}
	if b.network >= 0 {
		if err := unix.Setns(b.network, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering the network namespace: %w", err)
		}
	}
	if network != nil {
		if err := unix.Setns(int(network.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering the child's network: %w", err)
		}
	}
	if v == nil {
		return nil
	}
	home, homeErr := unix.Getwd()
	if err := v.enter(temp, b.strict.TempSize); err != nil {
		return err
	}
	// Stay in the host's working folder, if it is visible.
	if homeErr != nil || unix.Chdir(home) != nil {
		if temp != "" {
			if err := unix.Chdir(temp); err != nil {
				return fmt.Errorf("entering the temporary folder: %w", err)
			}
		}
	}
	return nil
}

// ruleset creates the Landlock ruleset of a child whose namespaces the calling thread has
// entered; -1 without Landlock.
func (b *sandbox) ruleset(v *view, temp string) (int, error) {
	if b.land == nil {
		return -1, nil
	}
	rules := append(b.grants.rules(), landRule{b.proc, landRead})
	own := []string{temp}
	if v != nil {
		rules[len(b.grants.list)].fd = v.proc
		own = append(own, "/dev/shm")
	}
	for _, path := range own {
		if path == "" {
			continue
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
		defer unix.Close(fd)
		rules = append(rules, landRule{fd, landAll})
	}
	return b.land.ruleset(rules)
}

// restrict applies everything that is not a namespace to the calling thread. It cannot be
// undone, and the thread can do little after it.
func (b *sandbox) restrict(ruleset int) error {
	if err := errors.Join(setNoNewPrivs(), dropCapabilities()); err != nil {
		return err
	}
	if ruleset >= 0 {
		if err := landRestrict(ruleset); err != nil {
			return err
		}
	}
	if len(b.filter) > 0 {
		return installFilter(b.filter)
	}
	return nil
}

// prepare creates what another process needs to do the same as restrict. The calling
// thread has entered the namespaces.
func (b *sandbox) prepare(v *view, temp string) (*Prepared, error) {
	p := &Prepared{Filter: filterBytes(b.filter), release: func() {}}
	fd, err := b.ruleset(v, temp)
	if err != nil {
		return nil, err
	}
	if fd >= 0 {
		p.Ruleset = os.NewFile(uintptr(fd), "landlock ruleset")
	}
	var names []string
	if b.network >= 0 || b.ownNetwork || b.strict.Loopback {
		names = append(names, "net")
	}
	if b.separated {
		names = append(names, "ipc", "uts")
	}
	if v != nil {
		names = append(names, "mnt")
	}
	for _, name := range names {
		fd, err := unix.Openat(b.proc, "thread-self/ns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("namespace %s: %w", name, err), p.Close())
		}
		p.Namespaces = append(p.Namespaces, os.NewFile(uintptr(fd), "namespace "+name))
	}
	return p, nil
}
