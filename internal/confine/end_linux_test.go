package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// soon is the bound for what the kernel does by itself.
const soon = 500 * time.Millisecond

func TestCloseKillsAll(t *testing.T) {
	s := newSpawner(t, Profile{Guard: true})
	needGuard(t, s)
	text, env := mark(t)
	child, host := readPipe(t)
	spec := shell(detach, nil, child)
	spec.Env = env
	begin(t, s, spec) // nobody waits for it
	child.Close()
	readLine(t, host)
	awaitSome(t, text, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	awaitEOF(t, host, soon)
	awaitNone(t, text, soon)
	if _, err := s.Start(shell("exit 0")); !errors.Is(err, ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
}

func TestCloseWhileBusy(t *testing.T) {
	s := newSpawner(t, Profile{Guard: true})
	var starts, closes sync.WaitGroup
	var enough sync.WaitGroup // what has to be started before the end
	enough.Add(16)
	for range 16 {
		starts.Go(func() {
			for i := 0; ; i++ {
				c, err := s.Start(shell("exec sleep 1000"))
				if i == 2 {
					enough.Done()
				}
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				starts.Go(func() {
					if e, err := c.Wait(); err != nil || e.Signal != syscall.SIGKILL {
						t.Errorf("%v, %v", e, err)
					}
				})
				if c.Pid()%3 == 0 {
					_ = c.Kill()
				}
			}
		})
	}
	enough.Wait()
	for range 3 {
		closes.Go(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closes.Wait()
	starts.Wait()
}

func TestSharedGuard(t *testing.T) {
	a, b := newSpawner(t, Profile{Guard: true}), newSpawner(t, Profile{Guard: true, Nice: 1, NiceSet: true})
	needGuard(t, a)
	if a.current.guard != b.current.guard {
		t.Error("two spawners have two guards")
	}
	alone := newSpawner(t, Profile{Guard: true, GuardAlone: true})
	if alone.current.guard == a.current.guard {
		t.Error("a guard that should be alone is shared")
	}
	child, host := readPipe(t)
	begin(t, alone, shell(detach, nil, child))
	child.Close()
	readLine(t, host)
	for _, s := range []*Spawner{alone, a} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	awaitEOF(t, host, soon)
	if got := output(t, b, "echo alive"); got != "alive\n" {
		t.Errorf("after the other's end: %q", got)
	}
	pid := b.current.guard.pid
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the guard lives after its last user: %v", err)
	}
	guards.mu.Lock()
	defer guards.mu.Unlock()
	if guards.current != nil {
		t.Error("a guard that has ended is offered")
	}
}

func TestGuardKilled(t *testing.T) {
	s, other := newSpawner(t, Profile{Guard: true}), newSpawner(t, Profile{Guard: true})
	needGuard(t, s)
	c := begin(t, s, shell("exec sleep 1000"))
	begin(t, other, shell("exec sleep 1000")) // not waited for: the guard cannot be reaped
	for range 2 {
		if err := syscall.Kill(s.current.guard.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if e, err := c.Wait(); err != nil || e.Signal != syscall.SIGKILL {
			t.Errorf("%v, %v; want killed", e, err)
		}
		var wg sync.WaitGroup
		for _, spawner := range []*Spawner{s, other, s, other, s, other} {
			wg.Go(func() {
				if c, err := spawner.Start(shell("exit 6")); err != nil {
					t.Error(err)
				} else if e, err := c.Wait(); err != nil || e.Code != 6 {
					t.Errorf("%v, %v", e, err)
				}
			})
		}
		wg.Wait()
		c = begin(t, s, shell("exec sleep 1000"))
	}
	if s.current.guard != other.current.guard {
		t.Error("the new guard is not shared")
	}
}

// TestHostKilled is the promise of the package.
func TestHostKilled(t *testing.T) {
	for _, c := range []struct{ guard, detach string }{{"yes", "yes"}, {"yes", "no"}, {"no", "no"}} {
		t.Run(fmt.Sprintf("guard=%s,detach=%s", c.guard, c.detach), func(t *testing.T) {
			if f := probe.PIDNamespace(); c.guard == "yes" && !f.OK {
				t.Skip("no PID namespaces: " + f.Detail)
			}
			text, _ := mark(t)
			held, seen := readPipe(t)
			out, says := readPipe(t)
			host := helperCommand(t, "host", text, "GUARD="+c.guard, "DETACH="+c.detach)
			host.Stdout, host.ExtraFiles = out, []*os.File{held}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			held.Close()
			out.Close()
			readLine(t, says)
			awaitSome(t, text, 2)
			if err := host.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			awaitEOF(t, seen, soon)
			awaitNone(t, text, soon)
			if err := host.Wait(); err == nil {
				t.Error("the host was not killed")
			}
		})
	}
}

func TestWithoutRights(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	host := helperCommand(t, "proof")
	host.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}}
	out, err := host.Output()
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(out), "\n")
	for _, says := range []string{"false", "CAP_SYS_ADMIN", "outlive"} {
		if !strings.Contains(first, says) {
			t.Errorf("it says %q, without %q", first, says)
		}
	}
	if rest != "exit code 3\n" {
		t.Errorf("its children end with %q", rest)
	}
}

func TestNoGuardSaysSo(t *testing.T) {
	if ok, why := newSpawner(t, Profile{}).OrphanProof(); ok || why == "" {
		t.Errorf("OrphanProof: %v, %q", ok, why)
	}
}

// TestGuardFromFile takes the way of systems that forbid running from memory.
func TestGuardFromFile(t *testing.T) {
	if f := probe.PIDNamespace(); !f.OK {
		t.Skip("no PID namespaces: " + f.Detail)
	}
	if guardProgram() == nil {
		t.Skip("no guard program for this architecture")
	}
	child, host, err := HostWritePipe()
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	conn, err := child.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	g, path := &guard{userns: -1, pidns: -1}, ""
	ended := make(chan struct{})
	started := make(chan error)
	onOwnThread(func() { // the guard dies with its thread
		started <- withFileProgram(guardProgram(), func(p string) (err error) {
			path = p
			if ctlErr := conn.Control(func(fd uintptr) { err = g.fork(p, int(fd), false) }); ctlErr != nil {
				return ctlErr
			}
			return err
		})
		<-ended
	})
	defer close(ended)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	child.Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
	c := newChild(g.pid, g.pidfd, func(*Child) {})
	if _, err := host.Write([]byte("bytes mean nothing")); err != nil {
		t.Fatal(err)
	}
	host.Close()
	if e, err := c.Wait(); err != nil || e.Code != 0 || e.Signal != 0 {
		t.Errorf("at the end of file: %v, %v; want exit code 0", e, err)
	}
}

// TestGuardReaps shows that nothing orphaned stays in the process table.
func TestGuardReaps(t *testing.T) {
	s := newSpawner(t, Profile{Guard: true})
	needGuard(t, s)
	child, host := readPipe(t)
	begin(t, s, shell(`(setsid sh -c 'echo "$PPID"' &) ; exit 0`, nil, child))
	child.Close()
	readLine(t, host)
	awaitEOF(t, host, 5*time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	dir := fmt.Sprintf("/proc/%d/task/%[1]d/", s.current.guard.pid)
	var name, kids []byte
	for range 200 {
		name, _ = os.ReadFile(dir + "comm")
		kids, _ = os.ReadFile(dir + "children") // missing in some kernels: then the name alone is looked at
		if string(name) == "bullpen-guard\n" && len(kids) == 0 {
			return
		}
		<-tick.C
	}
	t.Errorf("the guard is called %q and does not reap its children %q", name, kids)
}

// TestGuardCode disassembles the guard for all architectures, and runs it
// where an emulator is at hand.
func TestGuardCode(t *testing.T) {
	for arch, c := range guardCodes {
		t.Run(arch, func(t *testing.T) {
			if len(c.code)%8 != 0 || len(c.code) != 0x58 {
				t.Errorf("%d bytes of code: the distances in it do not fit", len(c.code))
			}
			file := t.TempDir() + "/guard"
			if err := os.WriteFile(file, c.executable(), 0o700); err != nil {
				t.Fatal(err)
			}
			emulator, found := map[string]string{"amd64": "qemu-x86_64-static", "arm64": "qemu-aarch64-static"}[arch], false
			if path, err := exec.LookPath(emulator); err == nil {
				cmd := exec.CommandContext(t.Context(), path, file)
				cmd.Stdin = strings.NewReader("some bytes and then the end")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
				found = true
			}
			tool := map[string]string{"amd64": "x86_64-linux-gnu-objdump", "arm64": "aarch64-linux-gnu-objdump"}[arch]
			if path, err := exec.LookPath(tool); err == nil {
				disassemble(t, path, c)
				found = true
			}
			if !found {
				t.Skipf("neither %s nor %s is installed", emulator, tool)
			}
		})
	}
}

func disassemble(t *testing.T, tool string, c guardCode) {
	t.Helper()
	machine := map[uint16]string{62: "i386:x86-64", 183: "aarch64"}[c.machine]
	file := t.TempDir() + "/code"
	if err := os.WriteFile(file, c.code, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, "-D", "-b", "binary", "-m", machine, file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range map[uint16][]string{
		62:  {"mov    $0x9d,%eax", "# 0x78", "mov    $0xd,%eax", "mov    $0x11,%edi", "# 0x58", "je     0x2e", "mov    $0xe7,%eax"},
		183: {"x8, #0xa7", "x1, 0x78", "x8, #0x86", "x0, #0x11", "x1, 0x58", "b.eq\t0x28", "x8, #0x5e"},
	}[c.machine] {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
