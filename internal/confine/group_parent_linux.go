package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// In cgroup v2 a group enables controllers for the groups below it only if it has no
// processes of its own (except for the root of the tree), so the host itself has to move
// to a leaf. It may do so only in a group that was delegated to it: see "Control Group
// APIs and Delegation" of systemd.
const (
	// hostLeaf is the leaf that the host moves to.
	hostLeaf = "bullpen-host"
	// moveRounds bounds how often processes started meanwhile are moved as well.
	moveRounds = 10
	delegate   = "run it as a service with Delegate=yes, or by: systemd-run --scope -p Delegate=yes PROGRAM (with --user for an ordinary user)"
)

// errShared means that a group has processes that are not ours.
var errShared = errors.New("the group has processes of others, so it cannot delegate controllers")

// openV2 creates a folder of this host in the v2 tree whose groups have the controllers
// need.
func openV2(all []probe.Hierarchy, need []string) (*tree, error) {
	i := slices.IndexFunc(all, func(h probe.Hierarchy) bool { return h.V2 })
	if i < 0 {
		return nil, errors.New("cgroup v2: not mounted")
	}
	parent, err := parentV2(all[i], need)
	if err != nil {
		return nil, fmt.Errorf("cgroup v2: %w", err)
	}
	own, err := ownTree(parent)
	if err != nil {
		return nil, fmt.Errorf("cgroup v2: %w (%s)", err, delegate)
	}
	t := &tree{v2: true, own: own}
	if err := handDown(own.path, need); err != nil {
		return nil, errors.Join(fmt.Errorf("cgroup v2: %w", err), t.remove())
	}
	return t, nil
}

// parentV2 finds the group for the folder of this host, and enables the controllers need
// below it.
func parentV2(h probe.Hierarchy, need []string) (string, error) {
	base := h.Dir
	if filepath.Base(base) == hostLeaf {
		base = filepath.Dir(base) // this host was moved there before, or its parent was
	}
	err := prepare(base, need)
	if err == nil || os.Geteuid() != 0 {
		return base, err
	}
	// Root may use a group above that enables the controllers already: nothing must be
	// changed there.
	for dir := base; len(dir) > len(h.Top); {
		dir = filepath.Dir(dir)
		if on, readErr := listed(dir, "cgroup.subtree_control"); readErr == nil && len(lacking(on, need)) == 0 {
			return dir, nil
		}
	}
	return "", err
}

// prepare enables the controllers need below the group base.
func prepare(base string, need []string) error {
	on, err := listed(base, "cgroup.subtree_control")
	if err != nil {
		return err
	}
	missing := lacking(on, need)
	if len(missing) == 0 {
		return nil // whether a folder can be created shows when it is created
	}
	offered, err := listed(base, "cgroup.controllers")
	if err != nil {
		return err
	}
	if none := lacking(offered, missing); len(none) > 0 {
		return fmt.Errorf("%s does not have the controllers %s: %s", base, strings.Join(none, ", "), delegate)
	}
	err = handDown(base, missing)
	if errors.Is(err, unix.EBUSY) {
		return moveHost(base, missing)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, delegate)
	}
	return nil
}

// listed reads a file with names separated by blanks.
func listed(dir, name string) ([]string, error) {
	text, err := readFile(unix.AT_FDCWD, filepath.Join(dir, name))
	return strings.Fields(text), err
}

// lacking returns those of need that are not in have.
func lacking(have, need []string) []string {
	return slices.DeleteFunc(slices.Clone(need), func(c string) bool { return slices.Contains(have, c) })
}

// handDown enables controllers for the groups below dir.
func handDown(dir string, controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	return writeFile(unix.AT_FDCWD, filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(controllers, " +"))
}

// moveHost moves all processes of base to a leaf, if they are all ours, and enables
// controllers below base.
func moveHost(base string, controllers []string) error {
	leaf := filepath.Join(base, hostLeaf)
	others, err := foreign(base)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return fmt.Errorf("%s: %w (processes %v): %s", base, errShared, others, delegate)
	}
	if err := makeGroup(leaf); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w: %s", err, delegate)
	}
	for range moveRounds {
		if err = moveAll(base, leaf); err != nil {
			break
		}
		if err = handDown(base, controllers); !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	if err == nil {
		return nil
	}
	undone := moveAll(leaf, base)
	return errors.Join(fmt.Errorf("%w: %s", err, delegate), undone, removeEmpty(leaf))
}

// moveAll moves all processes from one group to another. Processes that end meanwhile
// need not be moved.
func moveAll(from, to string) error {
	pids, err := procsIn(from)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		err := writeFile(unix.AT_FDCWD, filepath.Join(to, "cgroup.procs"), strconv.Itoa(pid))
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("moving process %d: %w", pid, err)
		}
	}
	return nil
}

// foreign returns the processes of a group that are neither this one nor its descendants.
// Those outside of this PID namespace are listed as 0.
func foreign(dir string) ([]int, error) {
	pids, err := procsIn(dir)
	return slices.DeleteFunc(pids, ours), err
}

// ours reports whether a process is this one or a descendant. A process that has ended
// counts as ours, as it is about to disappear.
func ours(pid int) bool {
	for pid > 1 && pid != os.Getpid() {
		_, parent, err := stateOf(pid)
		if err != nil {
			return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH)
		}
		pid = parent
	}
	return pid == os.Getpid()
}

// stateOf returns the kernel's letter for the state of a process, and its parent.
func stateOf(pid int) (state string, parent int, err error) {
	text, err := readFile(unix.AT_FDCWD, fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	// The name of the program is in parentheses and may contain any further ones.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return "", 0, fmt.Errorf("cannot parse /proc/%d/stat", pid)
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err
}
