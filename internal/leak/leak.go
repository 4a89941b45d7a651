// Package leak finds what a test left behind: goroutines, open file descriptors, child
// processes that live or are not reaped, and cgroup folders of Bullpen.
//
// A package of tests uses it in its TestMain
//
//	func TestMain(m *testing.M) { leak.Main(m) }
//
// and fails if anything is left after its last test. A single test that must not leave
// anything calls [Check] first.
//
// Descriptors, processes and cgroups are looked up in /proc and /sys; on systems without
// these, only goroutines are checked. A process whose parent died is adopted by the
// system and no longer a descendant, so it is not found; tests of orphans find them by a
// mark of their own.
package leak

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Patience is how long [State.Compare] waits for goroutines that are about to return and
// children that are about to be reaped.
const Patience = 3 * time.Second

// State lists what a process has open at one moment.
type State struct {
	goroutines  goleak.Option
	descriptors map[descriptor]bool
	children    map[process]bool
	cgroups     map[string]bool
}

// Snapshot records what the process has open now. It takes about a millisecond.
func Snapshot() *State {
	return &State{
		goroutines:  goleak.IgnoreCurrent(),
		descriptors: descriptors(),
		children:    children(),
		cgroups:     cgroups(),
	}
}

// Compare reports everything that is open now and was not when s was taken. It waits up
// to [Patience] for these to disappear. It covers the whole process, so it is meaningless
// while other tests run in parallel.
func (s *State) Compare() error { return s.compare(Patience) }

func (s *State) compare(patience time.Duration) error {
	end := time.Now().Add(patience)
	const first, most = time.Millisecond, 100 * time.Millisecond
	for pause := first; ; pause = min(2*pause, most) {
		err := s.look()
		left := time.Until(end)
		if err == nil || left <= 0 {
			return err
		}
		<-time.After(min(pause, left))
	}
}

// look reports what is open now. It does not wait, except that goleak gives goroutines
// about half a second.
func (s *State) look() error {
	var found []error
	for d := range descriptors() {
		if !s.descriptors[d] && !d.runtime() {
			found = append(found, fmt.Errorf("descriptor %d is open: %s", d.number, d.target))
		}
	}
	for p := range children() {
		if !s.children[p] {
			found = append(found, fmt.Errorf("process %s", p.describe()))
		}
	}
	for folder := range cgroups() {
		if !s.cgroups[folder] {
			found = append(found, fmt.Errorf("cgroup folder %s is there", folder))
		}
	}
	found = append(found, goleak.Find(s.goroutines))
	return errors.Join(found...)
}

// Main runs the tests of a package and exits with their status, or with 1 if they passed
// but left something behind.
func Main(m *testing.M) {
	if os.Getenv(apartVar) != "" {
		os.Exit(m.Run())
	}
	os.Exit(run(m, Patience))
}

// apartVar is set in the environment of the processes of [Apart].
const apartVar = "BULLPEN_TEST_APART"

// Apart reports whether t runs in a separate process, where leaks do not count. Otherwise
// it runs t, which must not be a subtest, in such a process, in parallel with other
// tests, and fails if that fails:
//
//	if !leak.Apart(t) {
//		return
//	}
func Apart(t *testing.T) bool {
	t.Helper()
	if os.Getenv(apartVar) != "" {
		return true
	}
	t.Parallel()
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	again := exec.CommandContext(t.Context(), os.Args[0], args...)
	again.Env = append(os.Environ(), apartVar+"=1")
	out, err := again.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	return false
}

func run(m *testing.M, patience time.Duration) int {
	before := Snapshot()
	code := m.Run()
	if code == 0 {
		if err := before.compare(patience); err != nil {
			fmt.Fprintf(os.Stderr, "The tests passed and left this behind:\n%v\n", err)
			code = 1
		}
	}
	return code
}

// Check fails t at its end if t left anything behind. It must not be used in a test that
// runs in parallel with others.
func Check(t testing.TB) {
	t.Helper()
	before := Snapshot()
	t.Cleanup(func() {
		if err := before.Compare(); err != nil {
			t.Errorf("the test left this behind:\n%v", err)
		}
	})
}
