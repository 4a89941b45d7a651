package confine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Groups creates, pools and reuses control groups in a folder of this host. If the host
// is killed, the next host removes the folder. All methods are safe for concurrent use.
type Groups struct {
	kinds kinds
	trees []*tree

	mu     sync.Mutex
	free   map[kinds][]*Group  // clean ones, by their kinds of bounds; guarded by mu
	all    map[*Group]struct{} // free ones and those in use; guarded by mu
	stuck  []string            // folders that could not yet be removed; guarded by mu
	number int                 // of the last group created; guarded by mu
	fault  error               // the first error in leaving a group; guarded by mu
	closed bool                // guarded by mu

	once     sync.Once
	closeErr error // written in once
}

// OpenGroups prepares to create groups: in cgroup v2 if it has a controller for each kind
// of bounds that is not zero in want, or else in v1. It removes the groups of hosts that
// died. The caller must close the result. It takes about half a millisecond if there is
// nothing to remove.
//
// In v2 it may have to move this process, with all its descendants, from its group to a
// new one below it, called bullpen-host; that group remains. It moves them only if the
// group has no other process. If that is not possible, root uses a group above its own.
//
// The error is an [ErrUnsupported] that names each missing controller and says what to do
// about it.
func OpenGroups(want Bounds) (*Groups, error) {
	if err := want.check(); err != nil {
		return nil, err
	}
	trees, err := openTrees(want.kinds())
	if err != nil {
		return nil, err
	}
	return newGroups(trees), nil
}

func newGroups(trees []*tree) *Groups {
	g := &Groups{trees: trees, free: make(map[kinds][]*Group), all: make(map[*Group]struct{})}
	for _, t := range trees {
		g.kinds |= t.kinds
	}
	return g
}

// Kind returns "cgroup v2" or "cgroup v1", for people.
func (g *Groups) Kind() string {
	if g.trees[0].v2 {
		return "cgroup v2"
	}
	return "cgroup v1"
}

// Get returns an empty group with these bounds whose counters start at zero. The caller
// must call Put. It costs about 15 microseconds for each kind of bounds if a group is
// free, and 50 to 100 otherwise. Bounds of a kind that [OpenGroups] was not asked for are
// refused. After Close the error is [ErrClosed].
func (g *Groups) Get(b Bounds) (*Group, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	if more := b.kinds() &^ g.kinds; more != 0 {
		return nil, fmt.Errorf("confine: limits of the kind %v were not requested when the groups were opened", more.controllers())
	}
	trees := g.treesFor(b.kinds())
	for {
		found, err := g.pop(kindsOf(trees))
		if err != nil {
			return nil, err
		}
		if found == nil {
			return g.add(trees, b)
		}
		if err := found.begin(b, false); err == nil {
			return found, nil
		}
		g.discard(found) // a new one will do
	}
}

// treesFor returns the trees for k: v2 has only one. Of v1 it returns only those needed,
// but at least one, with which Kill finds the processes.
func (g *Groups) treesFor(k kinds) []*tree {
	if len(g.trees) == 1 {
		return g.trees
	}
	if k == 0 {
		k = pidsKind & g.kinds
	}
	used := slices.DeleteFunc(slices.Clone(g.trees), func(t *tree) bool { return t.kinds&k == 0 })
	if len(used) == 0 {
		return g.trees[:1]
	}
	return used
}

func kindsOf(trees []*tree) (k kinds) {
	for _, t := range trees {
		k |= t.kinds
	}
	return k
}

// pop removes and returns a free group for k, or nil.
func (g *Groups) pop(k kinds) (*Group, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	free := g.free[k]
	if len(free) == 0 {
		return nil, nil //nolint:nilnil // none is free
	}
	last := len(free) - 1
	found := free[last]
	free[last] = nil
	g.free[k] = free[:last]
	return found, nil
}

// add creates a new group for use.
func (g *Groups) add(trees []*tree, b Bounds) (*Group, error) {
	g.mu.Lock()
	g.number++
	name := "g" + strconv.Itoa(g.number)
	stuck := g.stuck
	g.stuck = nil
	g.mu.Unlock()
	for _, dir := range stuck { // they may be empty by now
		if removeEmpty(dir) != nil {
			g.addStuck(dir)
		}
	}
	made := newGroup(g)
	var err error
	for _, t := range trees {
		var p *part
		if p, err = newPart(t, name); err != nil {
			break
		}
		made.parts = append(made.parts, p)
	}
	if err == nil {
		err = made.begin(b, true)
	}
	if err == nil {
		err = g.enlist(made)
	}
	if err != nil {
		g.discard(made)
		if g.isClosed() { // Close has removed the folder it was to be created in
			return nil, ErrClosed
		}
		return nil, err
	}
	return made, nil
}

// enlist registers a new group for Close.
func (g *Groups) enlist(made *Group) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return ErrClosed
	}
	g.all[made] = struct{}{}
	return nil
}

func (g *Groups) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// giveBack makes a clean group free.
func (g *Groups) giveBack(clean *Group) {
	g.mu.Lock()
	closed := g.closed
	if !closed {
		k := clean.kinds()
		g.free[k] = append(g.free[k], clean)
	}
	g.mu.Unlock()
	if closed {
		g.discard(clean)
	}
}

// discard removes a group that is no longer used.
func (g *Groups) discard(old *Group) {
	g.mu.Lock()
	delete(g.all, old)
	g.mu.Unlock()
	old.shut()
	for _, p := range old.parts {
		if removeGroups(p.dir, deadlineIn(discardGrace)) != nil {
			g.addStuck(p.dir)
		}
	}
}

// discardGrace bounds the wait for a group that cannot yet be removed; its removal is
// retried later.
const discardGrace = 20 * time.Millisecond

func (g *Groups) addStuck(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stuck = append(g.stuck, dir)
}

// note records err for Close.
func (g *Groups) note(err error) {
	if err == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fault == nil {
		g.fault = err
	}
}

// Close kills all processes in the groups and removes all groups, including those in use,
// which are then unusable. It takes at most 5 seconds; then the error names what remains,
// and a later host tries again. It is idempotent: later and concurrent calls wait for the
// first and return its result.
func (g *Groups) Close() error {
	g.once.Do(func() { g.closeErr = g.end() })
	return g.closeErr
}

// end does the work of Close.
func (g *Groups) end() error {
	g.mu.Lock()
	g.closed = true
	all := make([]*Group, 0, len(g.all))
	for one := range g.all {
		all = append(all, one)
	}
	g.mu.Unlock()
	for _, one := range all {
		one.shut()
	}
	// All trees concurrently: each takes as long as its processes take to die.
	faults := make([]error, len(g.trees))
	var removing sync.WaitGroup
	for i, t := range g.trees {
		// Ends after closeGrace at the latest; waited for below.
		removing.Go(func() { faults[i] = t.remove() })
	}
	removing.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(append(faults, g.fault)...)
}
