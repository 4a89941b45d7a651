package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/internal/probe"
)

// helperEnv makes this test binary one of the helpers below.
const helperEnv = "CONFINE_TEST_HELPER"

// selfExe is this test binary, also for users who may not enter its folder.
const selfExe = "/proc/self/exe"

func TestMain(m *testing.M) {
	if name := os.Getenv(helperEnv); name != "" {
		if err := helpers[name](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leak.Main(m)
}

var helpers = map[string]func() error{
	"host":  helperHost,
	"grow":  helperGrow,
	"proof": helperProof,
	"try":   helperTry,
	"weak":  helperWeak,

	"ordinary": helperOrdinary,
	"gains":    helperGains,
}

// detach is a shell script that starts a spinning process in a session of its
// own, says so, and lives on.
const detach = `setsid sh -c 'while :; do :; done' "$MARK" & echo started; exec sleep 1000`

// helperHost is a host with a worker that has a detached grandchild, both of
// which hold descriptor 3. It waits to be killed.
func helperHost() error {
	s, err := NewSpawner(Profile{Guard: os.Getenv("GUARD") == "yes"})
	if err != nil {
		return err
	}
	script := detach
	if os.Getenv("DETACH") == "no" {
		script = `echo started; exec sleep 1000`
	}
	_, err = s.Start(Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", script},
		Files: []*os.File{nil, os.Stdout, os.Stderr, os.NewFile(3, "held")},
	})
	if err != nil {
		return err
	}
	held, stay, err := HostReadPipe()
	if err != nil {
		return err
	}
	defer held.Close() // not before: so the next line waits for ever
	_, err = stay.Read(make([]byte, 1))
	return err
}

// helperGrow touches 128 MiB.
func helperGrow() error {
	b := make([]byte, 128<<20)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	_, err := fmt.Println(b[len(b)-4096])
	return err
}

// helperProof says what OrphanProof says to it.
func helperProof() error {
	s, err := NewSpawner(Profile{Guard: true, Nice: 5, NiceSet: true})
	if err != nil {
		return err
	}
	ok, why := s.OrphanProof()
	fmt.Println(ok, why)
	c, err := s.Start(Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "exit 3"}})
	if err != nil {
		return err
	}
	e, err := c.Wait()
	fmt.Println(e)
	return errors.Join(err, helperSessions(s), s.Close())
}

// helperSessions starts some children at once and waits until all their
// sessions have the nice value 5. The kernel lets an ordinary user change one
// in 100 ms, so that all but the first are tried again.
func helperSessions(s *Spawner) error {
	if !autogrouped() {
		return nil
	}
	held, stay, err := HostWritePipe()
	if err != nil {
		return err
	}
	defer held.Close()
	defer stay.Close()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	children := make([]*Child, 4)
	for i := range children {
		if children[i], err = s.Start(shell("read -r line", held)); err != nil {
			return err
		}
	}
	for _, c := range children {
		for tries := 0; ; tries++ {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/autogroup", c.Pid()))
			if err != nil || tries == 5000 { // others may use up the kernel's rate for long
				return fmt.Errorf("the session of process %d has %q (%w), want nice 5", c.Pid(), text, err)
			}
			if strings.HasSuffix(string(text), " nice 5\n") {
				break
			}
			<-tick.C
		}
	}
	return nil
}

// newSpawner makes one that is closed with the test.
func newSpawner(t testing.TB, p Profile) *Spawner {
	t.Helper()
	s, err := NewSpawner(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// needGuard skips where no guard is possible, and fails if one is missing
// although the kernel allows it.
func needGuard(t testing.TB, s *Spawner) {
	t.Helper()
	if f := probe.PIDNamespace(); !f.OK {
		t.Skip("no PID namespaces: " + f.Detail)
	}
	if ok, why := s.OrphanProof(); !ok {
		t.Fatalf("not orphan-proof: %s", why)
	}
}

func shell(script string, files ...*os.File) Spec {
	return Spec{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Files: files}
}

// begin starts spec or fails the test.
func begin(t testing.TB, s *Spawner, spec Spec) *Child {
	t.Helper()
	c, err := s.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// output runs a script to its end and gives what it prints.
func output(t testing.TB, s *Spawner, script string) string {
	t.Helper()
	child, host := readPipe(t)
	c := begin(t, s, shell(script, nil, child))
	child.Close()
	text, err := io.ReadAll(host)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := c.Wait(); err != nil || e.Code != 0 {
		t.Fatalf("%s: %v, %v", script, e, err)
	}
	return string(text)
}

// readPipe makes a pipe that the test reads, for half a minute at most.
func readPipe(t testing.TB) (child, host *os.File) {
	t.Helper()
	child, host, err := HostReadPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Close(); host.Close() })
	if err := host.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return child, host
}

// readLine reads up to the first newline and nothing after it.
func readLine(t testing.TB, f *os.File) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := f.Read(b); err != nil {
			t.Fatalf("after %q: %v", line, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
	}
}

// awaitEOF waits until nobody holds the other end of f.
func awaitEOF(t testing.TB, f *os.File, within time.Duration) {
	t.Helper()
	if err := f.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(f); err != nil {
		t.Errorf("somebody still holds the pipe after %v: %v %q", within, err, text)
	}
}

// awaitNone fails if processes with mark live on for longer than within.
func awaitNone(t testing.TB, mark string, within time.Duration) {
	t.Helper()
	awaitMarked(t, mark, within, func(n int) bool { return n == 0 })
}

// awaitSome waits until n processes have mark. Those that are just about to
// run another program seem to have none.
func awaitSome(t testing.TB, mark string, n int) {
	t.Helper()
	awaitMarked(t, mark, 10*time.Second, func(m int) bool { return m >= n })
}

func awaitMarked(t testing.TB, mark string, within time.Duration, enough func(int) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		found := marked(t, mark)
		if enough(len(found)) {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("after %v %d are alive: %s", within, len(found), strings.Join(found, "; "))
			return
		case <-tick.C:
		}
	}
}

// marked lists the living processes that have mark in their environment.
// Those that wait to be reaped have none any more.
func marked(t testing.TB, mark string) (found []string) {
	t.Helper()
	all, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		env, err := os.ReadFile("/proc/" + p.Name() + "/environ")
		if err == nil && bytes.Contains(env, []byte(mark)) {
			line, _ := os.ReadFile("/proc/" + p.Name() + "/cmdline")
			found = append(found, p.Name()+" "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// mark gives an environment with a text that no other test has.
func mark(t testing.TB) (text string, env []string) {
	t.Helper()
	text = fmt.Sprintf("MARK=confine-%d-%s", os.Getpid(), t.Name())
	return text, append(os.Environ(), text)
}

// helperCommand is this test binary as a helper.
func helperCommand(t testing.TB, name string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), selfExe)
	cmd.Env = append(append(os.Environ(), helperEnv+"="+name, "GORACE=atexit_sleep_ms=0"), env...)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	return cmd
}

// wrongDescriptors says which descriptors of a process are not as they should be.
func wrongDescriptors(t *testing.T, pid int, want map[int]string) (faults []string) {
	t.Helper()
	got := descriptors(t, pid)
	for fd := range inheritable(t) {
		if _, ours := want[fd]; !ours {
			delete(got, fd) // made so by whoever started this test
		}
	}
	for fd, file := range got {
		if want[fd] != file && fd < 10 { // a shell moves what it redirects to 10
			faults = append(faults, fmt.Sprintf("descriptor %d is %s, want %q", fd, file, want[fd]))
		}
	}
	for fd := range want {
		if got[fd] == "" {
			faults = append(faults, fmt.Sprintf("descriptor %d is not there", fd))
		}
	}
	return faults
}
