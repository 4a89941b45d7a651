package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Group is a control group for one worker and everything it starts. All methods are safe
// for concurrent use.
type Group struct {
	groups *Groups
	parts  []*part // one folder in each tree in use

	killing sync.Mutex // held by Kill; taken before mu

	mu       sync.Mutex // also guards the parts
	left     sync.Cond  // of mu; signaled when a visitor leaves
	bounds   Bounds     // guarded by mu
	state    groupState // guarded by mu
	dying    bool       // killed, so that nothing more may start; guarded by mu
	spoilt   bool       // killed as one, and unusable after that: see Kill; guarded by mu
	visitors int        // starts in progress; guarded by mu
	peak     int64      // the highest memory seen; guarded by mu
	entry    []*os.File // guarded by mu
}

type groupState int

const (
	groupFree groupState = iota // in the pool, or on the way there
	groupOut                    // in use
	groupShut                   // no longer usable; its descriptors are closed
)

var (
	errGroupBack   = errors.New("confine: the control group was given back")
	errGroupKilled = errors.New("confine: the control group was killed: return it and get another one")
)

func newGroup(g *Groups) *Group {
	made := &Group{groups: g}
	made.left.L = &made.mu
	return made
}

func (g *Group) kinds() (k kinds) {
	for _, p := range g.parts {
		k |= p.tree.kinds
	}
	return k
}

// begin starts the use of the group with these bounds.
func (g *Group) begin(b Bounds, isNew bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == groupShut {
		return ErrClosed
	}
	for _, p := range g.parts {
		if err := errors.Join(p.begin(isNew), p.bound(b, isNew)); err != nil {
			return err
		}
	}
	g.bounds, g.state, g.dying, g.peak = b, groupOut, false, 0
	return nil
}

// usableLocked returns why the group cannot be used. g.mu is held.
func (g *Group) usableLocked() error {
	switch g.state {
	case groupOut:
		return nil
	case groupShut:
		return ErrClosed
	default:
		return errGroupBack
	}
}

// Usage returns what the group has used since Get. It costs about 10 microseconds for
// each kind of bounds.
func (g *Group) Usage() (Usage, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usableLocked(); err != nil {
		return Usage{}, err
	}
	var u Usage
	for _, p := range g.parts {
		if err := p.usage(&u); err != nil {
			return Usage{}, fmt.Errorf("confine: control group %s: %w", p.dir, err)
		}
		if !p.tree.v2 && p.keeps(pidsKind) {
			u.PIDs -= g.visitors // spawner threads, which count while they start a child
		}
	}
	g.peak = max(g.peak, u.Memory)
	u.Peak = max(u.Peak, g.peak)
	return u, nil
}

// Kill kills all processes in the group, again and again until none is left, for at most
// one second; then the error names those that do not die. From then on nothing can be
// started in the group until it is put back and taken again: since Linux 6.14 (seen in
// 6.18) a process that is created in a v2 group which was ever killed as one is killed at
// once, unless its parent's group was killed as often.
func (g *Group) Kill() error {
	g.killing.Lock()
	defer g.killing.Unlock()
	if err := g.beginKill(); err != nil {
		return err
	}
	deadline := deadlineIn(killGrace)
	err := g.end(deadline)
	for err == nil && g.visited() && time.Now().Before(deadline) {
		<-time.After(killPause) // processes that are just being started die as well
		err = g.end(deadline)
	}
	return err
}

// end kills the processes in the group, once g.dying is set. g.killing is held.
func (g *Group) end(deadline time.Time) error {
	dirs := g.inhabited()
	if len(dirs) == 0 {
		return nil
	}
	found, err := endAll(dirs, deadline)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spoilt = g.spoilt || found && g.parts[0].tree.v2
	return err
}

// inhabited returns the folders that may have processes.
func (g *Group) inhabited() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var dirs []string
	for _, p := range g.parts {
		if g.state == groupShut || !p.empty() {
			dirs = append(dirs, p.dir)
		}
	}
	return dirs
}

func (g *Group) beginKill() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usableLocked(); err != nil {
		return err
	}
	g.dying = true
	return g.boundVisitedLocked()
}

// visited reports whether a process is just being started in the group.
func (g *Group) visited() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.visitors > 0
}

// boundVisitedLocked sets the bound of PIDs in v1, which must allow for the threads that
// start a child there. While the group is being killed nothing may fork: v1 kills one
// process after the other. v2 needs neither. g.mu is held.
func (g *Group) boundVisitedLocked() error {
	for _, p := range g.parts {
		if p.tree.v2 || !p.keeps(pidsKind) {
			continue
		}
		var err error
		switch {
		case g.dying:
			err = writeAll(p.pidsMax, "pids.max", "0")
		case g.bounds.PIDs == 0:
			err = p.boundPIDs(0)
		default:
			err = p.boundPIDs(g.bounds.PIDs + g.visitors)
		}
		if err != nil {
			return fmt.Errorf("confine: control group %s: %w", p.dir, err)
		}
	}
	return nil
}

// Put kills what is left in the group and gives it back for reuse, or removes it if it
// cannot be reset. It waits for the end of a Start in the group. Afterwards the caller
// must not use the group. It costs about 10 microseconds for each kind of bounds, half a
// millisecond more if much file cache must be freed, and up to a second if a process does
// not die.
func (g *Group) Put() {
	g.mu.Lock()
	for g.state == groupOut && g.visitors > 0 {
		g.left.Wait()
	}
	if g.state != groupOut {
		g.mu.Unlock()
		return
	}
	g.state, g.dying = groupFree, true
	_ = g.boundVisitedLocked() // helps to kill; begin sets the bounds again
	g.mu.Unlock()
	g.killing.Lock() // waits for a Kill in progress
	err := g.end(deadlineIn(killGrace))
	g.killing.Unlock()
	if err != nil || !g.clean() {
		g.groups.discard(g)
		return
	}
	g.groups.giveBack(g)
}

// clean reports whether the group, which has no processes, is like new.
func (g *Group) clean() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == groupShut || g.spoilt {
		return false
	}
	for _, p := range g.parts {
		if !p.clean() {
			return false
		}
	}
	return true
}

// shut closes the group's descriptors, at the latest at the end of the last start. It is
// idempotent.
func (g *Group) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == groupShut {
		return
	}
	g.state = groupShut
	g.left.Broadcast()
	if g.visitors == 0 {
		g.closeLocked()
	}
}

// closeLocked closes the files of the group. g.mu is held.
func (g *Group) closeLocked() {
	for _, p := range g.parts {
		p.close()
	}
	for _, f := range g.entry {
		f.Close()
	}
	g.entry = nil
}

// Entry returns files into which a process writes "0" to move itself, with all its
// threads, into the group: for processes that are not started by a [Spawner]. It must
// write to all of them. The group owns and closes the files; they may be passed to other
// processes, even of other users.
func (g *Group) Entry() ([]*os.File, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usableLocked(); err != nil {
		return nil, err
	}
	for i := len(g.entry); i < len(g.parts); i++ {
		p := g.parts[i]
		fd, err := openFile(p.fd, "cgroup.procs", unix.O_WRONLY)
		if err != nil {
			return nil, fmt.Errorf("confine: control group %s: %w", p.dir, err)
		}
		g.entry = append(g.entry, os.NewFile(uintptr(fd), p.dir+"/cgroup.procs"))
	}
	return append([]*os.File(nil), g.entry...), nil
}

// enter makes the children that the calling thread starts with sys start in the group,
// until leave. On a nil group it does nothing.
//
// In v2 the kernel does it. In v1 the thread itself moves there and back, which takes
// about 10 microseconds for each hierarchy. Moving a child after its start takes 20 to
// 50, because the kernel then waits for all forks in progress, and the child would run
// outside until then. The host's memory stays charged to the host meanwhile: the kernel
// charges memory, and selects processes to kill, by a process's first thread.
func (g *Group) enter(sys *syscall.SysProcAttr) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.usableLocked(); err != nil {
		return err
	}
	if g.dying {
		return errGroupKilled
	}
	g.visitors++
	for i, p := range g.parts {
		if p.tree.v2 {
			sys.UseCgroupFD, sys.CgroupFD = true, p.fd
			continue
		}
		if err := writeAll(p.tasks, "tasks", "0"); err != nil {
			g.leaveLocked(g.parts[:i])
			return fmt.Errorf("confine: control group %s: entering: %w", p.dir, err)
		}
	}
	// Only now, or processes in the group could use up the thread's place.
	if err := g.boundVisitedLocked(); err != nil {
		g.leaveLocked(g.parts)
		return err
	}
	return nil
}

// leave moves the calling thread back. If that fails, the thread stays in the group until
// it enters another one, the group cannot be removed, and Close reports it. leave returns
// err, the result of the start, unless that failed because the group was closed
// meanwhile.
func (g *Group) leave(err error) error {
	if g == nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaveLocked(g.parts)
	if err != nil && g.state == groupShut {
		return ErrClosed
	}
	return err
}

// leaveLocked takes the starting thread out of the group. g.mu is held.
func (g *Group) leaveLocked(entered []*part) {
	g.visitors--
	if g.state != groupShut {
		// Before the thread leaves, so that no process uses the place it frees.
		g.groups.note(g.boundVisitedLocked())
	}
	for _, p := range slices.Backward(entered) { // the quota of CPU time first
		if p.tree.v2 {
			continue
		}
		if err := p.tree.goHome(); err != nil {
			g.groups.note(fmt.Errorf("confine: control group %s: leaving: %w", p.dir, err))
		}
	}
	if g.state == groupShut && g.visitors == 0 {
		g.closeLocked()
	}
	g.left.Broadcast()
}
