package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// kinds is a set of kinds of bounds. Each kind is a controller of the kernel.
type kinds uint8

const (
	memoryKind kinds = 1 << iota
	pidsKind
	cpuKind
)

// controllers returns the kernel's names of the kinds.
func (k kinds) controllers() []string {
	var names []string
	for i, name := range []string{"memory", "pids", "cpu"} {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// kinds returns the kinds that b bounds.
func (b Bounds) kinds() kinds {
	var k kinds
	if b.Memory > 0 {
		k |= memoryKind
	}
	if b.PIDs > 0 {
		k |= pidsKind
	}
	if b.CPU > 0 || b.Weight > 0 {
		k |= cpuKind
	}
	return k
}

// tree is this host's part of one cgroup hierarchy: a folder in which the groups are
// created.
type tree struct {
	v2    bool
	kinds kinds  // wanted kinds that it supports
	own   *owned // its folder
	// Of v1 only: the controllers of the hierarchy, and the tasks file of the host's own
	// group, opened for writing, by which a thread moves back.
	controllers []string
	home        int
	swap        bool // whether the memory controller of v1 counts swap
}

// opening is held while trees are opened: two calls that move this host at the same time
// would conflict.
var opening sync.Mutex

// openTrees opens the trees for k: one of v2, or else some of v1.
func openTrees(k kinds) ([]*tree, error) {
	opening.Lock()
	defer opening.Unlock()
	all, err := probe.Hierarchies()
	if err != nil {
		return nil, fmt.Errorf("confine: control groups: %w", err)
	}
	t, faultV2 := openV2(all, k.controllers())
	if faultV2 == nil {
		t.kinds = k
		return []*tree{t}, nil
	}
	trees, faultV1 := openV1(all, k)
	if faultV1 == nil {
		return trees, nil
	}
	what := "control groups"
	if k != 0 {
		what += " for " + strings.Join(k.controllers(), ", ")
	}
	return nil, fmt.Errorf("%w: %s: %w; %w", ErrUnsupported, what, faultV2, faultV1)
}

// openV1 creates a folder in the hierarchy of each controller.
func openV1(all []probe.Hierarchy, k kinds) (trees []*tree, err error) {
	if k == 0 {
		return nil, errors.New("cgroup v1: a group without limits is not supported")
	}
	mounted := slices.ContainsFunc(all, func(h probe.Hierarchy) bool {
		return !h.V2 && slices.ContainsFunc(k.controllers(), func(c string) bool { return slices.Contains(h.Controllers, c) })
	})
	if !mounted {
		return nil, errors.New("cgroup v1: not mounted")
	}
	defer func() {
		if err != nil {
			for _, t := range trees {
				err = errors.Join(err, t.remove())
			}
			trees = nil
		}
	}()
	var faults []error
	for _, name := range k.controllers() {
		i := slices.IndexFunc(trees, func(t *tree) bool { return slices.Contains(t.controllers, name) })
		if i < 0 {
			t, err := openV1Controller(all, name)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			trees, i = append(trees, t), len(trees)
		}
		trees[i].kinds |= kindOf(name)
	}
	return trees, errors.Join(faults...)
}

func kindOf(controller string) kinds {
	return 1 << slices.Index((memoryKind|pidsKind|cpuKind).controllers(), controller)
}

// openV1Controller creates a folder in the hierarchy of one controller.
func openV1Controller(all []probe.Hierarchy, name string) (*tree, error) {
	i := slices.IndexFunc(all, func(h probe.Hierarchy) bool { return !h.V2 && slices.Contains(h.Controllers, name) })
	if i < 0 {
		return nil, fmt.Errorf("cgroup v1: the controller %s is not mounted", name)
	}
	h := all[i]
	home, err := openFile(unix.AT_FDCWD, filepath.Join(h.Dir, "tasks"), unix.O_WRONLY)
	if err != nil {
		return nil, fmt.Errorf("cgroup v1: the controller %s: %w (run as root, or have %s given to this user)", name, err, h.Dir)
	}
	own, err := ownTree(h.Dir)
	if err != nil {
		unix.Close(home)
		return nil, fmt.Errorf("cgroup v1: the controller %s: %w (run as root, or have %s given to this user)", name, err, h.Dir)
	}
	_, swapErr := os.Stat(filepath.Join(own.path, "memory.memsw.limit_in_bytes"))
	return &tree{own: own, controllers: h.Controllers, home: home, swap: swapErr == nil}, nil
}

// ownTree removes what dead hosts left in parent and creates a folder of this host there.
func ownTree(parent string) (*owned, error) {
	own, err := ownFolder(parent)
	if err != nil {
		return nil, err
	}
	// Processes that do not die now are left to a later host.
	_ = sweep(parent, func(path string) error { return removeGroups(path, deadlineIn(sweepGrace)) })
	return own, nil
}

// remove kills the processes in all groups of the folder, removes it, and closes what is
// open.
func (t *tree) remove() error {
	err := removeGroups(t.own.path, deadlineIn(closeGrace))
	if !t.v2 && err == nil { // otherwise a spawner thread may still be moving back
		unix.Close(t.home)
	}
	t.own.release()
	return err
}

// goHome moves the calling thread back into the host's group.
func (t *tree) goHome() error {
	err := writeAll(t.home, "tasks", "0")
	if err == nil {
		return nil
	}
	// The host was moved and its former group removed.
	all, listErr := probe.Hierarchies()
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	for _, h := range all {
		if !h.V2 && slices.Equal(h.Controllers, t.controllers) {
			return writeFile(unix.AT_FDCWD, filepath.Join(h.Dir, "tasks"), "0")
		}
	}
	return err
}
