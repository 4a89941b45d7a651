package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

func TestExit(t *testing.T) {
	for _, guard := range []bool{false, true} {
		s := newSpawner(t, Profile{Guard: guard})
		for _, c := range []struct {
			script string
			want   Exit
			says   string
		}{
			{"exit 0", Exit{Code: 0}, "exit code 0"},
			{"exit 7", Exit{Code: 7}, "exit code 7"},
			{"kill -TERM $$", Exit{Code: -1, Signal: syscall.SIGTERM}, "terminated (signal 15)"},
			{"kill -KILL $$", Exit{Code: -1, Signal: syscall.SIGKILL}, "killed (signal 9)"},
		} {
			t.Run(fmt.Sprintf("guard=%v/%s", guard, c.script), func(t *testing.T) {
				child := begin(t, s, shell(c.script))
				for range 2 {
					got, err := child.Wait()
					if err != nil || got.Code != c.want.Code || got.Signal != c.want.Signal || got.String() != c.says {
						t.Errorf("got %+v (%v), %v; want %+v", got, got, err, c.want)
					}
				}
				if err := child.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
					t.Errorf("Signal after the end: %v", err)
				}
				if err := child.Kill(); !errors.Is(err, os.ErrProcessDone) {
					t.Errorf("Kill after the end: %v", err)
				}
			})
		}
	}
}

func TestExitUsage(t *testing.T) {
	s := newSpawner(t, Profile{})
	c := begin(t, s, Spec{Path: selfExe, Env: append(os.Environ(), helperEnv+"=grow", "GORACE=atexit_sleep_ms=0")})
	e, err := c.Wait()
	if err != nil || e.Code != 0 {
		t.Fatalf("%v, %v", e, err)
	}
	if e.MaxRSS < 128<<20 || e.MaxRSS > 2<<30 || e.CPU <= 0 {
		t.Errorf("peak %d bytes, CPU %v; want a bit over 128 MiB and some time", e.MaxRSS, e.CPU)
	}
	// A small child has in its usage the peak of this process, not its own.
	e, err = begin(t, s, shell("exit 0")).Wait()
	if err != nil || e.MaxRSS != 0 {
		t.Errorf("peak %d bytes of a shell (%v); it cannot be known", e.MaxRSS, err)
	}
}

func TestSignal(t *testing.T) {
	s := newSpawner(t, Profile{Guard: true})
	child, host := readPipe(t)
	c := begin(t, s, shell(`trap 'exit 5' USR1; echo ready; while :; do sleep 0.01; done`, nil, child))
	readLine(t, host)
	if err := c.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if e, err := c.Wait(); err != nil || e.Code != 5 {
		t.Errorf("%v, %v; want exit code 5", e, err)
	}
}

func TestWaitKillsProcessGroup(t *testing.T) {
	for _, kill := range []bool{false, true} {
		s := newSpawner(t, Profile{})
		child, host := readPipe(t)
		script := `sleep 1000 & echo started`
		if kill {
			script += `; wait`
		}
		c := begin(t, s, shell(script, nil, child))
		child.Close()
		readLine(t, host)
		if kill {
			if err := c.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Wait(); err != nil {
			t.Fatal(err)
		}
		awaitEOF(t, host, 5*time.Second)
	}
}

func TestStartRefused(t *testing.T) {
	s := newSpawner(t, Profile{Guard: true})
	dir := t.TempDir()
	for name, content := range map[string]string{"noexec": "#!/bin/sh\n", "nointerpreter": "#!/no/such/thing\n"} {
		mode := fs.FileMode(0o700)
		if name == "noexec" {
			mode = 0o600
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	closed, _ := readPipe(t)
	closed.Close()
	for _, c := range []struct {
		name string
		spec Spec
		is   error
		says string
	}{
		{"no path", Spec{}, nil, "name the program"},
		{"no file", Spec{Path: dir + "/missing"}, fs.ErrNotExist, dir + "/missing"},
		{"no folder", Spec{Path: "/bin/sh", Dir: dir + "/missing"}, fs.ErrNotExist, "its folder"},
		{"no interpreter", Spec{Path: dir + "/nointerpreter"}, fs.ErrNotExist, "interpreter"},
		{"no right", Spec{Path: dir + "/noexec"}, fs.ErrPermission, "noexec"},
		{"closed file", Spec{Path: "/bin/sh", Files: []*os.File{nil, closed}}, nil, "descriptor 1"},
		{"bad environment", Spec{Path: "/bin/sh", Env: []string{"A\x00B"}}, syscall.EINVAL, "/bin/sh"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.Start(c.spec)
			if err == nil || !strings.Contains(err.Error(), c.says) || (c.is != nil && !errors.Is(err, c.is)) {
				t.Errorf("got %v; want one that says %q and is %v", err, c.says, c.is)
			}
		})
	}
	if got := output(t, s, "echo still alive"); got != "still alive\n" {
		t.Errorf("got %q", got)
	}
}

func TestDescriptors(t *testing.T) {
	s := newSpawner(t, Profile{Guard: true})
	in, hostIn, err := HostWritePipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer hostIn.Close()
	other, _ := readPipe(t)
	// Backwards, with a gap, and one twice: each number has to be made anew.
	c := begin(t, s, Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "exec cat <&5"}, Files: []*os.File{other, nil, nil, other, nil, in}})
	var faults []string
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(faults, "\n"))
		}
	}()
	// While it is loaded, a program has more open.
	await(t, "the descriptors to be those that were given", func() bool {
		faults = wrongDescriptors(t, c.Pid(), map[int]string{0: link(t, in), 1: os.DevNull, 2: os.DevNull, 3: link(t, other), 4: os.DevNull, 5: link(t, in)})
		return len(faults) == 0
	})
	if nonblocking(t, in) || !nonblocking(t, hostIn) {
		t.Error("the child's end has to be blocking, the host's not")
	}
	hostIn.Close()
	if e, err := c.Wait(); err != nil || e.Code != 0 {
		t.Errorf("%v, %v", e, err)
	}
}

func link(t testing.TB, f *os.File) (target string) {
	t.Helper()
	conn, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Control(func(fd uintptr) { target, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) }); err != nil {
		t.Fatal(err)
	}
	return target
}

func nonblocking(t testing.TB, f *os.File) bool {
	t.Helper()
	conn, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var flags int
	if err := conn.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) }); err != nil {
		t.Fatal(err)
	}
	return flags&unix.O_NONBLOCK != 0
}

func descriptors(t testing.TB, pid int) map[int]string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	for _, e := range all {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err != nil {
			t.Fatal(err)
		}
		found[fd], _ = os.Readlink(dir + e.Name())
	}
	return found
}

// inheritable are the descriptors of this process that are not close-on-exec.
func inheritable(t testing.TB) map[int]bool {
	t.Helper()
	found := map[int]bool{}
	for fd := range descriptors(t, os.Getpid()) {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			found[fd] = true
		}
	}
	return found
}

func TestProfile(t *testing.T) {
	cpu := firstCPU(t)
	s := newSpawner(t, Profile{Nice: 7, NiceSet: true, CPUs: []int{cpu}, Guard: true})
	for range 20 { // gone before anything could be set from outside
		if e, err := begin(t, s, shell("exit 4")).Wait(); err != nil || e.Code != 4 {
			t.Fatalf("%v, %v", e, err)
		}
	}
	got := output(t, s, `read -r line < /proc/self/stat; echo "$line" | cut -d' ' -f19; grep Cpus_allowed_list /proc/self/status`)
	if want := fmt.Sprintf("7\nCpus_allowed_list:\t%d\n", cpu); got != want {
		t.Errorf("a child says %q, want %q", got, want)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil || (set.Count() == 1 && !onlyOneCPU(t)) {
		t.Errorf("the host itself was bound to one CPU (%v)", err)
	}
	if raw, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getpid()); err != nil || raw == 20-7 {
		t.Errorf("the host itself got the nice value (%v)", err)
	}
	if !autogrouped() {
		return
	}
	child, _ := readPipe(t)
	c := begin(t, s, shell("exec sleep 1000", nil, child))
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", c.Pid()))
	if err != nil || !strings.HasSuffix(string(text), " nice 7\n") {
		t.Errorf("the child's session has %q (%v), want nice 7", text, err)
	}
}

func firstCPU(t testing.TB) int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for i := range 1024 {
		if set.IsSet(i) {
			return i
		}
	}
	t.Fatal("no CPU")
	return 0
}

func onlyOneCPU(t testing.TB) bool {
	t.Helper()
	return strings.HasSuffix(probe.Affinity().Detail, " (1)")
}

func TestProfileRefused(t *testing.T) {
	for _, c := range []struct {
		p    Profile
		says []string
	}{
		{Profile{Nice: 20, NiceSet: true, CPUs: []int{-1}}, []string{"nice value 20", "CPU -1"}},
		{Profile{Nice: -21, NiceSet: true}, []string{"nice value -21"}},
		{Profile{CPUs: []int{1000}, Guard: true}, []string{"CPUs [1000]", "none of them"}},
		{Profile{CPUs: []int{firstCPU(t), 1000}}, []string{"CPU 1000", "it does not exist"}},
		{Profile{CPUs: []int{1 << 20}}, []string{"it does not exist"}},
	} {
		s, err := NewSpawner(c.p)
		if err == nil {
			t.Errorf("%+v was taken", c.p)
			s.Close()
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%+v: %v; want %q", c.p, err, says)
			}
		}
	}
}

func TestManyStarts(t *testing.T) {
	s := newSpawner(t, Profile{Guard: true})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			c, err := s.Start(shell(fmt.Sprintf("exit %d", i)))
			if err != nil {
				t.Error(err)
				return
			}
			if e, err := c.Wait(); err != nil || e.Code != i {
				t.Errorf("%v, %v; want exit code %d", e, err, i)
			}
		})
	}
	wg.Wait()
}

func TestWaitHoldsNoThread(t *testing.T) {
	s := newSpawner(t, Profile{Guard: true})
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	before := threads(t)
	children := make([]*Child, 100)
	for i := range children {
		children[i] = begin(t, s, Spec{Path: sleep, Args: []string{"sleep", "1000"}})
		wg.Go(func() {
			if e, err := children[i].Wait(); err != nil || e.Signal != syscall.SIGKILL {
				t.Errorf("%v, %v", e, err)
			}
		})
	}
	if after := threads(t); after > before+10 {
		t.Errorf("%d threads before and %d after starting to wait for %d children", before, after, len(children))
	}
	for _, c := range slices.Backward(children) {
		if err := c.Kill(); err != nil {
			t.Error(err)
		}
	}
}

func threads(t testing.TB) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func BenchmarkStart(b *testing.B) {
	for _, guard := range []bool{false, true} {
		b.Run(fmt.Sprintf("guard=%v", guard), func(b *testing.B) {
			s := newSpawner(b, Profile{Guard: guard})
			for b.Loop() {
				if _, err := begin(b, s, Spec{Path: "/bin/true"}).Wait(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNewSpawner(b *testing.B) {
	for b.Loop() {
		s, err := NewSpawner(Profile{Guard: true})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
