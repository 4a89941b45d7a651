package confine

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// helperWeak is a host without CAP_SYS_ADMIN: it says what it is refused and
// what it gets with best effort.
func helperWeak() error {
	refused, err := NewSpawner(Profile{Guard: true, Strict: &Strict{}})
	if err == nil {
		return errors.Join(errors.New("not refused"), refused.Close())
	}
	fmt.Println(err)
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	s, err := NewSpawner(Profile{Guard: true, Strict: &Strict{Read: []string{filepath.Dir(exe)}, BestEffort: true}})
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(s.Missing(), " | "))
	fmt.Println(s.Confined())
	temp := os.Getenv("TRY_TEMP")
	c, err := s.Start(Spec{
		Path: exe, Env: []string{helperEnv + "=try", "GORACE=atexit_sleep_ms=0"}, Files: []*os.File{nil, os.Stdout, os.Stderr}, Temp: temp,
		Args: []string{"try", "read " + os.Getenv("TRY_SECRET"), "write " + temp + "/new", "write /dev/shm/new", "dial tcp 192.0.2.1:80", "socket 2", "unshare",
			"dial unix " + os.Getenv("TRY_ABSTRACT"), "status Seccomp NoNewPrivs CapEff", "read /etc/passwd", "kill " + fmt.Sprint(os.Getpid()),
			"dial unix " + os.Getenv("TRY_SOCKET"), "shm 4711", "msg 4711", "sem 4711", "mqueue bullpen", "prlimit " + fmt.Sprint(os.Getpid()), "nice 2 0"},
	})
	if err != nil {
		return err
	}
	e, err := c.Wait()
	fmt.Println(e)
	return errors.Join(err, s.Close())
}

func TestStrictWithoutRights(t *testing.T) {
	needStrict(t)
	needScopes(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can give up rights")
	}
	temp, secret := temporary(t), put(t, temporary(t)+"/secret")
	named, err := net.Listen("unix", temporary(t)+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	cmd := helperCommand(t, "weak", "TRY_SOCKET="+named.Addr().String(), "TRY_TEMP="+temp, "TRY_SECRET="+secret, fmt.Sprintf("TRY_ABSTRACT=@nobody-%d", os.Getpid()))
	var out bytes.Buffer
	cmd.Stdout = &out
	started := make(chan error)
	onOwnThread(func() { // ends at once; waited for below
		err := dropCapabilities()
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err, out.String())
	}
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 5 {
		t.Fatalf("%q", lines)
	}
	for i, wants := range [][]string{
		{"is not possible here", "mount namespace", "PID namespace", "CAP_SYS_ADMIN", "best effort"},
		{"mount namespace", "outside files and processes", "PID namespace"},
		{"true true"},
		{"denied", `,"",`, "address family not supported", `"operation not permitted"`, "CapEff=0000000000000000 NoNewPrivs=1 Seccomp=2",
			`socket: socket: address family not supported by protocol","function not implemented","function not implemented",` +
				`"function not implemented","function not implemented","operation not permitted","operation not permitted"]`},
		{"exit code 0"},
	} {
		for _, want := range wants {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%q is not in %s", want, lines[i])
			}
		}
	}
	if strings.Contains(lines[1], "landlock") || strings.Contains(lines[1], "sockets") || strings.Contains(lines[1], "IPC") || strings.Contains(lines[1], "system-call filter (") {
		t.Errorf("missing although it is there: %s", lines[1])
	}
}

// TestStrictGuardKilled: the view has to be made anew with the guard.
func TestStrictGuardKilled(t *testing.T) {
	needStrict(t)
	s := strict(t, Profile{Guard: true, GuardAlone: true}, Strict{})
	temp := temporary(t)
	for range 3 {
		check(t, s, temp, want{"processes", "1 of "}, want{"write " + temp + "/x", ""})
		s.mu.Lock()
		g := s.current.guard
		s.mu.Unlock()
		if err := unix.Kill(g.pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		tick := time.NewTicker(time.Millisecond)
		for !g.dying() {
			<-tick.C
		}
		tick.Stop()
	}
	check(t, s, temp, want{"read /proc/self/status", ""})
}

func TestProfileOfChildren(t *testing.T) {
	for io, says := range map[IOPriority]string{IONormal: "none", IOLow: "best-effort: prio 7", IOIdle: "idle"} {
		s := newSpawner(t, Profile{Guard: true, NoNewPrivs: true, NoCore: true, IOPriority: io})
		child, _ := readPipe(t)
		c := begin(t, s, shell("exec sleep 1000", nil, child))
		if err := c.SetOOMScore(300); err != nil {
			t.Error(err)
		}
		if err := c.SetOOMScore(-1); err == nil {
			t.Error("a lower OOM score was taken")
		}
		value, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, 1, uintptr(c.Pid()), 0)
		if want := map[string]uintptr{"none": 0, "best-effort: prio 7": 2<<13 | 7, "idle": 3 << 13}[says]; errno != 0 || value != want && io != IONormal {
			t.Errorf("I/O priority %#x (%v), want %s", value, errno, says)
		}
		for file, want := range map[string]string{
			"status": "NoNewPrivs:\t1\n", "limits": fmt.Sprintf("%-25s %-20s %-20s", "Max core file size", "1", "1"), "oom_score_adj": hostScore(t, 300),
		} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.Pid(), file))
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s: %s (%v), want %q", file, text, err, want)
			}
		}
		c.Kill()
		c.Wait()
		if err := c.SetOOMScore(1); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("after the end: %v", err)
		}
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil || !strings.Contains(string(text), "NoNewPrivs:\t0") {
		t.Errorf("the host itself: %s (%v)", text, err)
	}
	if _, err := NewSpawner(Profile{IOPriority: 9}); err == nil {
		t.Error("I/O priority 9 was taken")
	}
}

func hostScore(t testing.TB, more int) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	var own int
	if _, err := fmt.Sscan(string(text), &own); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d\n", min(own+more, 1000))
}

// TestStrictSecretOfRoot: what root may read by its user alone is hidden.
func TestStrictSecretOfRoot(t *testing.T) {
	if os.Geteuid() != 0 || !probe.MountNamespace().OK {
		t.Skip("for root with mount namespaces")
	}
	g := &grants{list: []grant{{path: "/etc/ssl"}}}
	dir := temporary(t)
	for name, mode := range map[string]os.FileMode{"open": 0o644, "shut": 0o640, "folder/in": 0o600, "seen/shut": 0o600, "seen/open": 0o604} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir+"/folder", 0o750); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(g.secrets(dir)), fmt.Sprintf("[%[1]s %[1]s/folder %[1]s/seen/shut %[1]s/shut]", dir); got != want {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(g.secrets(dir)), fmt.Sprintf("[%[1]s/folder %[1]s/seen/shut %[1]s/shut]", dir); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	g.list[0].path = dir + "/folder/in"
	if got := fmt.Sprint(g.secrets(dir)); strings.Contains(got, "folder") {
		t.Errorf("%s is hidden although it is granted", got)
	}
}

// TestStrictThreadLives: without a guard children die with the thread that
// started them, so that it has to live as long as they do.
func TestStrictThreadLives(t *testing.T) {
	needStrict(t)
	needScopes(t)
	s := strict(t, Profile{}, Strict{})
	child, host := readPipe(t)
	in, hostIn, err := HostWritePipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hostIn.Close()
	c := begin(t, s, shell(`echo ready; read -r line; echo "$line"`, in, child))
	child.Close()
	in.Close()
	readLine(t, host)
	for range 20 { // whose threads end
		if e, err := begin(t, s, shell("exit 0")).Wait(); err != nil || e.Code != 0 {
			t.Errorf("%v, %v", e, err)
		}
	}
	if _, err := hostIn.WriteString("still there\n"); err != nil {
		t.Fatal(err)
	}
	if got := readLine(t, host); got != "still there" {
		t.Errorf("%q", got)
	}
	if e, err := c.Wait(); err != nil || e.Code != 0 {
		t.Errorf("%v, %v", e, err)
	}
}

// TestStrictSettings: what root alone may read in /etc stays shut, also by the
// second means, and is open when it is named.
func TestStrictSettings(t *testing.T) {
	needStrict(t)
	const secret = "/etc/shadow"
	if info, err := os.Stat(secret); err != nil || info.Mode()&0o004 != 0 || os.Geteuid() != 0 {
		t.Skip("no " + secret + " that is root's")
	}
	s := strict(t, Profile{Guard: true}, Strict{})
	check(t, s, "", want{"read " + secret, "denied"}, want{"read /etc/passwd", ""})
	named := strict(t, Profile{Guard: true}, Strict{Read: []string{secret}})
	check(t, named, "", want{"read " + secret, ""}, want{"write " + secret, "read-only"}, want{"read /etc/passwd", ""})
	mounts := output(t, s, "cat /proc/self/mountinfo")
	mapped := false
	for line := range strings.Lines(mounts) {
		mapped = mapped || strings.Contains(line, " /etc ") && strings.Contains(line, "idmapped")
	}
	if hidden := strings.Contains(mounts, " "+secret+" "); hidden == mapped {
		t.Errorf("owners mapped: %v, files hidden: %v; want one of them\n%s", mapped, hidden, mounts)
	}
	hideByHand(t)
}

// hideByHand does what happens where owners cannot be mapped.
func hideByHand(t *testing.T) {
	t.Helper()
	g, err := newGrants(Strict{Read: []string{testFolder(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	done := make(chan error)
	onOwnThread(func() { // ends at once; waited for below
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
				return err
			}
			root, err := detachedMount("tmpfs", 0, nil, -1)
			if err != nil {
				return err
			}
			defer unix.Close(root)
			if err := unix.MoveMount(root, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
				return err
			}
			v := &view{namespace: -1, proc: -1, skeleton: -1}
			defer v.close()
			if v.skeleton, err = cloneMount(root, "", 0); err != nil {
				return err
			}
			loose, err := v.mounts(root, -1, g, 0)
			for _, m := range loose {
				defer unix.Close(m.fd)
			}
			if err != nil {
				return err
			}
			if err := errors.Join(assemble(root, loose), dropCapabilities()); err != nil {
				return err
			}
			for path, want := range map[string]error{"/etc/passwd": nil, "/etc/shadow": unix.EACCES} {
				fd, err := unix.Openat(root, path[1:], unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err == nil {
					unix.Close(fd)
				}
				if !errors.Is(err, want) {
					return fmt.Errorf("%s: %w, want %w", path, err, want)
				}
			}
			if err := unix.Fchmodat(root, "etc/shadow", 0o644, 0); !errors.Is(err, unix.EROFS) {
				return fmt.Errorf("chmod of a hidden file: %w", err)
			}
			return nil
		}()
	})
	if err := <-done; err != nil {
		t.Error(err)
	}
}
