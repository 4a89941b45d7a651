package confine

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// runScript runs s as a program of its own, with what it prints.
func runScript(t *testing.T, s *script) (out, fault string, exit int) {
	t.Helper()
	path := t.TempDir() + "/stage"
	if err := os.WriteFile(path, s.program(2), 0o700); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func TestStage(t *testing.T) {
	if newScript() == nil {
		t.Skip("no stage for this architecture")
	}
	print := func(s *script, text string) { s.call("printing", unix.SYS_WRITE, 1, s.text(text), uint64(len(text))) }
	s := newScript()
	print(s, "begins ")
	s.try("closing nothing", unix.SYS_CLOSE, 99)
	failing := s.call("failing", unix.SYS_CLOSE, 98)
	failing.onError = len(s.ops) + 2
	print(s, "wrong ")
	zero := s.call("succeeding with 0", unix.SYS_FCHDIR, 97)
	zero.onError = len(s.ops) + 1
	some := s.call("succeeding with more", unix.SYS_GETPID)
	result := s.memory(make([]byte, 4))
	s.ops[len(s.ops)-1].store = result
	some.unlessZero = len(s.ops) + 2
	print(s, "wrong ")
	none := s.call("succeeding with none", unix.SYS_UMASK, 0o22)
	none.unlessZero = 0
	s.call("printing", unix.SYS_WRITE, 1, uint64(result), 4)
	s.call("becoming a shell", unix.SYS_EXECVE, s.text("/bin/sh"), s.texts([]string{"sh", "-c", `echo "$A $0"`, "ends"}), s.texts([]string{"A=here"}))
	out, fault, exit := runScript(t, s)
	if !strings.HasPrefix(out, "begins ") || !strings.HasSuffix(out, "here ends\n") || len(out) != len("begins ")+4+len("here ends\n") || fault != "" || exit != 0 {
		t.Errorf("%q, %q, exit code %d", out, fault, exit)
	}

	s = newScript()
	print(s, "begins")
	s.call("opening nothing", unix.SYS_OPENAT, 0, s.text("/missing"), 0, 0)
	print(s, "wrong")
	out, fault, exit = runScript(t, s)
	if out != "begins" || len(fault) != stageErrorSize || exit != 1 {
		t.Fatalf("%q, %q, exit code %d", out, fault, exit)
	}
	if o, err := s.failure([]byte(fault)); o.what != "opening nothing" || !errors.Is(err, unix.ENOENT) {
		t.Errorf("%+v, %v", o, err)
	}
}

func FuzzStageFailure(f *testing.F) {
	s := newScript()
	if s == nil {
		f.Skip("no stage for this architecture")
	}
	s.call("one", unix.SYS_GETPID)
	s.call("two", unix.SYS_GETPID)
	report := binary.NativeEndian.AppendUint64(nil, ^uint64(1)) // -2, ENOENT
	f.Add(binary.NativeEndian.AppendUint64(report, uint64(s.next())+opSize))
	f.Add(make([]byte, stageErrorSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != stageErrorSize {
			return
		}
		if o, err := s.failure(b); err == nil || o.what != "" && o.what != "one" && o.what != "two" {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

// unprivilegedSpawner is one of children in a user namespace, for whoever runs
// the tests.
func unprivilegedSpawner(t testing.TB) *Spawner {
	t.Helper()
	if f := probe.UserNamespace(); !f.OK || newScript() == nil {
		t.Skip("no user namespaces: " + f.Detail)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := Profile{Guard: true, GuardAlone: true, Strict: &Strict{Read: []string{testFolder(t)}}}
	s := &Spawner{profile: p, null: null, children: map[*Child]struct{}{}, ended: make(chan struct{})}
	if s.current, err = s.unprivileged(*p.Strict); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestUnprivilegedGuardKilled: the namespaces have to be made anew with the guard.
func TestUnprivilegedGuardKilled(t *testing.T) {
	s := unprivilegedSpawner(t)
	for range 3 {
		check(t, s, temporary(t), want{"processes", "1 of "})
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
	check(t, s, temporary(t), want{"read /proc/self/status", ""})
}

// TestUnprivilegedManyAtOnce starts children side by side, and some of what is
// no program among them.
func TestUnprivilegedManyAtOnce(t *testing.T) {
	s := unprivilegedSpawner(t)
	errs := make(chan error)
	for i := range 16 {
		go func() { // ends with its child; waited for below
			errs <- func() error {
				if i%4 == 3 {
					if _, err := s.Start(Spec{Path: "/missing"}); !errors.Is(err, os.ErrNotExist) {
						return errors.Join(errors.New("a missing program was started"), err)
					}
					return nil
				}
				c, err := s.Start(shell("exit 3"))
				if err != nil {
					return err
				}
				if e, err := c.Wait(); err != nil || e.Code != 3 {
					return errors.Join(errors.New(e.String()), err)
				}
				return nil
			}()
		}()
	}
	for range 16 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func BenchmarkUnprivilegedStart(b *testing.B) {
	s := unprivilegedSpawner(b)
	for b.Loop() {
		if _, err := begin(b, s, Spec{Path: "/bin/true"}).Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestStageOfManyFiles: the child's descriptors must not take the place of the one
// that its program is run from.
func TestStageOfManyFiles(t *testing.T) {
	s := unprivilegedSpawner(t)
	c := begin(t, s, shell("exit 3", make([]*os.File, 200)...))
	if e, err := c.Wait(); err != nil || e.Code != 3 {
		t.Error(e, err)
	}
}
