package confine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// The helpers of the tests of groups.
var (
	_ = helper("block", helperBlock)
	_ = helper("hog 300", func() error { return hog(300) })
	_ = helper("hog 1024", func() error { return hog(1024) })
	_ = helper("bomb", helperBomb)
	_ = helper("spin", helperSpin)
	_ = helper("where", helperWhere)
	_ = helper("runner", helperRunner)
	_ = helper("enter 1", func() error { return enter(1) })
	_ = helper("enter 3", func() error { return enter(3) })
	_ = helper("fill", helperFill)
	_ = helper("groups", helperGroups)
	_ = helper("refused", helperRefused)
	_ = helper("delegated", helperDelegated)
	_ = helper("scratch", helperScratch)
)

func helper(name string, f func() error) bool {
	helpers[name] = f
	return true
}

// helperBlock says so and waits to be killed.
func helperBlock() error {
	fmt.Println("ready")
	held, stay, err := HostReadPipe()
	if err != nil {
		return err
	}
	defer held.Close() // not before: so the next line waits for ever
	_, err = stay.Read(make([]byte, 1))
	return err
}

// hog touches so many MiB, one after the other.
func hog(size int) error {
	for range size { // never freed
		if _, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE); err != nil {
			return err
		}
	}
	return nil
}

// helperBomb starts processes that all start processes, as many as it can.
func helperBomb() error {
	bomb()
	return nil
}

// bomb never returns. It is run in forks of a program with several threads,
// so that it may do nothing but system calls.
//
//go:norace
//go:nosplit
func bomb() {
	for {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0); errno != 0 {
			tenth := unix.Timespec{Nsec: 100e6}
			_, _, _ = syscall.RawSyscall6(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&tenth)), 0, 0, 0, 0, 0)
		}
	}
}

// helperRunner forks, detaches the child and ends, and so does the child, for
// ever.
func helperRunner() error {
	fmt.Println("ready")
	hop()
	return nil
}

//go:norace
//go:nosplit
func hop() {
	for {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && pid != 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		_, _, _ = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	}
}

func helperSpin() error {
	for i := 0; ; i++ {
		if i < 0 {
			return errors.New("counted too far")
		}
	}
}

// helperWhere prints the groups it is in.
func helperWhere() error {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}

// enter enters a group by n descriptors from 3 on and tells.
func enter(n int) (err error) {
	for i := range n {
		_, writeErr := os.NewFile(uintptr(3+i), "entry").WriteString("0")
		err = errors.Join(err, writeErr)
	}
	return errors.Join(err, helperWhere())
}

// helperFill writes 64 MiB to FILE.
func helperFill() error {
	return os.WriteFile(os.Getenv("FILE"), make([]byte, 64<<20), 0o600)
}

// helperGroups is a host with a child in a group, and waits to be killed.
func helperGroups() error {
	g, err := OpenGroups(allBounds)
	if err != nil {
		return err
	}
	one, err := g.Get(allBounds)
	if err != nil {
		return err
	}
	s, err := NewSpawner(Profile{})
	if err != nil {
		return err
	}
	spec := shell("setsid sleep 1000 & sleep 1000")
	spec.Group = one
	if _, err := s.Start(spec); err != nil {
		return err
	}
	for _, t := range g.trees {
		fmt.Print(t.own.path, " ")
	}
	return helperBlock()
}

// helperRefused says why it gets no groups.
func helperRefused() error {
	g, err := OpenGroups(allBounds)
	if err == nil {
		return errors.Join(errors.New("groups were opened"), g.Close())
	}
	_, err = fmt.Println(errors.Is(err, ErrUnsupported), err)
	return err
}

// helperDelegated is the only process of a v2 group that was given to it, and
// wants groups with the last controller that it has.
func helperDelegated() error {
	all, err := probe.Hierarchies()
	if err != nil {
		return err
	}
	own := all[slices.IndexFunc(all, func(h probe.Hierarchy) bool { return h.V2 })].Dir
	has, err := listed(own, "cgroup.controllers")
	if err != nil || len(has) == 0 {
		return fmt.Errorf("%s has no controllers: %w", own, err)
	}
	need := has[len(has)-1:]
	if os.Getenv("SHARED") != "" {
		fmt.Println(prepare(own, need))
	}
	first, err := openV2(all, need)
	if err != nil {
		return err
	}
	if all, err = probe.Hierarchies(); err != nil { // from the leaf it is the same
		return err
	}
	second, err := openV2(all, need)
	if err != nil {
		return err
	}
	g := newGroups([]*tree{second})
	one, err := g.Get(Bounds{})
	if err != nil {
		return err
	}
	has, err = listed(one.parts[0].dir, "cgroup.controllers")
	fmt.Println(filepath.Base(filepath.Dir(first.own.path)), filepath.Dir(first.own.path) == filepath.Dir(second.own.path), has)
	return errors.Join(err, g.Close(), first.remove(), helperWhere())
}

// readText reads f to its end.
func readText(t testing.TB, f *os.File) string {
	t.Helper()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
