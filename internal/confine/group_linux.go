package confine

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Groups makes, pools and reuses control groups in a folder of this host,
// which the next host removes should this one be killed. All methods may be
// called from many goroutines at once.
type Groups struct {
	kinds kinds
	trees []*tree

	mu     sync.Mutex
	free   map[kinds][]*Group  // +checklocks:mu; clean ones, by what they keep
	all    map[*Group]struct{} // +checklocks:mu; free ones and those given out
	stuck  []string            // +checklocks:mu; folders that could not be removed yet
	number int                 // +checklocks:mu; of the last group made
	fault  error               // +checklocks:mu; the first thing that went wrong on the way out of a group
	closed bool                // +checklocks:mu

	once     sync.Once
	closeErr error // written in once
}

// OpenGroups makes ready to make groups: in cgroup v2 if it has a controller
// for each kind of bounds that is not zero in want, or else in v1. The caller
// has to close it. It removes the groups of hosts that died. It takes about
// half a millisecond when there are none.
//
// In v2 it may have to move this process, with all its descendants, from its
// group to a new one below it, called bullpen-host; that remains. It does so
// only if no other process is there. Root uses a group above the own one if
// that is not possible.
//
// The error is an [ErrUnsupported] that names each controller that is missing
// and says what to do about it.
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

// Kind is "cgroup v2" or "cgroup v1", for people.
func (g *Groups) Kind() string {
	if g.trees[0].v2 {
		return "cgroup v2"
	}
	return "cgroup v1"
}

// Get gives an empty group with these bounds whose counters start at zero. The
// caller has to put it back. It costs about 15 microseconds for each kind of
// bounds if one is free, and 50 to 100 if not. Bounds of a kind that
// [OpenGroups] was not asked for are refused. After Close the error is
// [ErrClosed].
func (g *Groups) Get(b Bounds) (*Group, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	if more := b.kinds() &^ g.kinds; more != 0 {
		return nil, fmt.Errorf("confine: bounds of the kind %v were not asked for when the groups were opened", more.controllers())
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
		g.discard(found) // one that is made anew will do
	}
}

// treesFor gives the trees that keep k: v2 has but one, and of v1 only those
// that are needed are used, but one at least, by which Kill finds whom to kill.
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

// pop takes a free group that keeps k, or gives nil.
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

// add makes a new group and gives it out.
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
		if g.isClosed() { // which has removed what it was to be made in
			return nil, ErrClosed
		}
		return nil, err
	}
	return made, nil
}

// enlist makes Close know about a new group.
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

// discard removes a group that nobody is to use any more.
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

// discardGrace bounds how long a group is waited for that cannot be removed
// yet; it is tried again later.
const discardGrace = 20 * time.Millisecond

func (g *Groups) addStuck(dir string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stuck = append(g.stuck, dir)
}

// note keeps err for Close.
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

// Close kills what is in the groups and removes them all, also those that are
// given out; these are of no use then. It takes 5 seconds at the most; then
// the error names what stays, and a later host tries again. It is idempotent:
// later and concurrent calls wait for the first and return its result.
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
	// All trees at once: each takes as long as it takes to die.
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
