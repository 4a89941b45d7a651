package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// allBounds asks for every kind, and bounds nothing that a test does.
var allBounds = Bounds{Memory: 4 << 30, PIDs: 4000, CPU: 64, Weight: 100}

// openGroups opens groups that are closed with the test, or skips.
func openGroups(t testing.TB, want Bounds) *Groups {
	t.Helper()
	g, err := OpenGroups(want)
	if errors.Is(err, ErrUnsupported) {
		t.Skip("no control groups: " + err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		for _, tr := range g.trees {
			if _, err := os.Stat(tr.own.path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is left: %v", tr.own.path, err)
			}
		}
	})
	return g
}

func getGroup(t testing.TB, g *Groups, b Bounds) *Group {
	t.Helper()
	one, err := g.Get(b)
	if err != nil {
		t.Fatal(err)
	}
	return one
}

func usageOf(t testing.TB, g *Group) Usage {
	t.Helper()
	u, err := g.Usage()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// helperSpec starts this test binary as a helper in a group.
func helperSpec(g *Group, name string, env ...string) Spec {
	return Spec{
		Path: selfExe, Dir: "/", Group: g,
		Env: append(append(os.Environ(), helperEnv+"="+name, "GORACE=atexit_sleep_ms=0", "GOMAXPROCS=2"), env...),
	}
}

// listening gives spec an output, and what reads it.
func listening(t testing.TB, spec Spec) (Spec, *os.File) {
	t.Helper()
	child, host := readPipe(t)
	spec.Files = []*os.File{nil, child, os.Stderr}
	return spec, host
}

func TestGroupMemory(t *testing.T) {
	const bound = 256 << 20
	groups := openGroups(t, Bounds{Memory: bound})
	s := newSpawner(t, Profile{Guard: true})
	hog, sibling := getGroup(t, groups, Bounds{Memory: bound}), getGroup(t, groups, Bounds{Memory: bound})
	spec, lives := listening(t, helperSpec(sibling, "block"))
	neighbour := begin(t, s, spec)
	readLine(t, lives)
	e, err := begin(t, s, helperSpec(hog, "hog 1024")).Wait()
	if err != nil || e.Signal != syscall.SIGKILL {
		t.Errorf("the hog ended with %v, %v", e, err)
	}
	if u := usageOf(t, hog); u.OOMKills != 1 || u.Peak < bound*9/10 || u.Peak > bound {
		t.Errorf("%+v, want one kill and a peak of about %d", u, bound)
	}
	if u := usageOf(t, sibling); u.OOMKills != 0 || u.Memory == 0 || u.Peak < u.Memory || u.Peak > bound/2 {
		t.Errorf("the sibling: %+v", u)
	}
	if err := neighbour.Signal(0); err != nil {
		t.Errorf("the sibling is gone: %v", err)
	}
	hog.Put()
	again := getGroup(t, groups, Bounds{Memory: 2 * bound})
	if u := usageOf(t, again); u.OOMKills != 0 || u.Peak > mostLeft {
		t.Errorf("reused: %+v", u)
	}
	if e, err := begin(t, s, helperSpec(again, "hog 300")).Wait(); err != nil || e.Code != 0 {
		t.Errorf("within a bound that is wider: %v, %v", e, err)
	}
	if u := usageOf(t, again); u.OOMKills != 0 || u.Peak < 300<<20 {
		t.Errorf("within a bound that is wider: %+v", u)
	}
}

func TestGroupPIDs(t *testing.T) {
	const bound = 40
	groups := openGroups(t, Bounds{PIDs: 1})
	s := newSpawner(t, Profile{Guard: true})
	g := getGroup(t, groups, Bounds{PIDs: bound})
	for range 2 {
		c := begin(t, s, helperSpec(g, "bomb"))
		await(t, "the bomb to hit its bound", func() bool { return usageOf(t, g).PIDsHits > 0 })
		for range 100 {
			if u := usageOf(t, g); u.PIDs > bound {
				t.Fatalf("%+v, want %d at the most", u, bound)
			}
		}
		if _, err := s.Start(helperSpec(g, "block")); !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("one more was started: %v", err)
		}
		if u := usageOf(t, g); u.PIDs != bound {
			t.Errorf("%+v, want %d", u, bound)
		}
		if err := g.Kill(); err != nil {
			t.Fatal(err)
		}
		if e, err := c.Wait(); err != nil || e.Signal != syscall.SIGKILL {
			t.Errorf("%v, %v", e, err)
		}
		g.Put()
		if g = getGroup(t, groups, Bounds{PIDs: bound}); usageOf(t, g) != (Usage{}) {
			t.Errorf("reused: %+v", usageOf(t, g))
		}
	}
}

func TestGroupCPU(t *testing.T) {
	groups := openGroups(t, Bounds{CPU: 1})
	s := newSpawner(t, Profile{Guard: true})
	g := getGroup(t, groups, Bounds{CPU: 0.2, Weight: 50})
	start := time.Now()
	c := begin(t, s, helperSpec(g, "spin"))
	await(t, "the spinner to be held back", func() bool { return usageOf(t, g).Throttled > 500*time.Millisecond })
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	e, err := c.Wait()
	took := time.Since(start)
	if err != nil || e.CPU > took*4/10 {
		t.Errorf("it had %v in %v (%v), want a fifth", e.CPU, took, err)
	}
	g.Put()
	if u := usageOf(t, getGroup(t, groups, Bounds{Weight: 10000})); u.Throttled != 0 {
		t.Errorf("reused: %+v", u)
	}
}

// TestGroupBorn shows that a child is in its group from the start, and that
// the thread that started it is not.
func TestGroupBorn(t *testing.T) {
	groups := openGroups(t, allBounds)
	for _, guard := range []bool{false, true} {
		s := newSpawner(t, Profile{Guard: guard})
		for _, b := range []Bounds{{}, {Memory: 1 << 30}, {PIDs: 100}, {CPU: 1}, allBounds} {
			g := getGroup(t, groups, b)
			spec, out := listening(t, helperSpec(g, "where"))
			c := begin(t, s, spec)
			spec.Files[1].Close()
			printed := readText(t, out)
			if e, err := c.Wait(); err != nil || e.Code != 0 {
				t.Errorf("%v, %v", e, err)
			}
			for _, p := range g.parts {
				mark := strings.TrimPrefix(p.dir, filepath.Dir(p.tree.own.path))
				if !strings.Contains(printed, mark+"\n") {
					t.Errorf("%+v: not in %s but in\n%s", b, mark, printed)
				}
				if left, err := procsIn(p.dir); err != nil || len(left) > 0 {
					t.Errorf("%+v: %v are in %s (%v)", b, left, p.dir, err)
				}
			}
			if k := b.kinds(); groups.Kind() == "cgroup v1" && len(g.parts) != max(1, len(k.controllers())) {
				t.Errorf("%+v uses %d hierarchies", b, len(g.parts))
			}
			g.Put()
		}
	}
}

// TestGroupKill has processes that fork, detach and end all the time, so that
// no list of them is ever right.
func TestGroupKill(t *testing.T) {
	for _, want := range []Bounds{{}, {Memory: 1 << 30}, {PIDs: 100}, allBounds} {
		t.Run(fmt.Sprint(want.kinds().controllers()), func(t *testing.T) {
			groups := openGroups(t, want)
			s := newSpawner(t, Profile{Guard: true})
			g := getGroup(t, groups, want)
			for _, how := range []string{"kill", "put", "close"} {
				text, _ := mark(t)
				spec, out := listening(t, helperSpec(g, "runner", text))
				c := begin(t, s, spec)
				spec.Files[1].Close()
				readLine(t, out)
				if how == "kill" {
					if err := errors.Join(g.Kill(), g.Kill()); err != nil {
						t.Fatal(err)
					}
					if _, err := s.Start(helperSpec(g, "block")); !errors.Is(err, errGroupKilled) {
						t.Errorf("started in a group that was killed: %v", err)
					}
				} else if how == "put" {
					g.Put()
					g = getGroup(t, groups, want)
				} else if err := groups.Close(); err != nil {
					t.Fatal(err)
				}
				awaitEOF(t, out, 20*time.Second)
				awaitNone(t, text, 0)
				if _, err := c.Wait(); err != nil {
					t.Error(err)
				}
				if how == "kill" {
					g.Put()
					g = getGroup(t, groups, want)
				}
			}
		})
	}
}

func TestGroupEntry(t *testing.T) {
	groups := openGroups(t, allBounds)
	s := newSpawner(t, Profile{Guard: true})
	g := getGroup(t, groups, allBounds)
	files, err := g.Entry()
	if err != nil || len(files) != len(g.parts) {
		t.Fatal(files, err)
	}
	spec, out := listening(t, helperSpec(nil, fmt.Sprint("enter ", len(files))))
	spec.Files = append(spec.Files, files...)
	c := begin(t, s, spec)
	spec.Files[1].Close()
	printed := readText(t, out)
	if e, err := c.Wait(); err != nil || e.Code != 0 {
		t.Errorf("%v, %v", e, err)
	}
	for _, p := range g.parts {
		if mark := strings.TrimPrefix(p.dir, filepath.Dir(p.tree.own.path)); !strings.Contains(printed, mark+"\n") {
			t.Errorf("not in %s but in\n%s", mark, printed)
		}
	}
	if again, err := g.Entry(); err != nil || !slices.Equal(again, files) {
		t.Errorf("%v, %v; want the same files again", again, err)
	}
	g.Put()
}

// await waits until holds, looked at often.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	end := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-end:
			t.Fatalf("waited for %s for 30 s", what)
		case <-tick.C:
		}
	}
}

// All groups of a host together weigh what their processes would.
func TestGroupsWeigh(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nice, processes, weight, want int }{
		{0, 1, 0, 1024}, {10, 2, 100, 219}, {10, 2, 200, 439}, {19, 1, 0, 14}, {-20, 99, 100, 1 << 18}, {19, 0, 1, 2},
	} {
		if got := sharesOf(c.nice, c.processes, c.weight); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	g, err := OpenGroups(Bounds{CPU: 1})
	if err != nil {
		t.Skip(err)
	}
	if err := g.Weigh(10, 2, 0); err != nil {
		t.Error(err)
	}
	tr := g.treesFor(cpuKind)[0]
	name, want := "cpu.shares", int64(219)
	if tr.v2 {
		name, want = "cpu.weight", 21
	}
	if got, err := readNumber(tr.own.lock, name); err != nil || got != want {
		t.Errorf("%s is %d, %v, want %d", name, got, err, want)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}
