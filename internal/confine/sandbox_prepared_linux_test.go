package confine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPrepared follows the rules of Prepared on a thread of this process.
func TestPrepared(t *testing.T) {
	needStrict(t)
	s := strict(t, Profile{Guard: true}, Strict{})
	secret, temp := put(t, temporary(t)+"/secret"), temporary(t)
	p, err := s.Prepare(temp, nil)
	if err != nil {
		t.Fatal(err)
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child, host := readPipe(t)
	s.mu.Lock()
	g := s.current.guard
	s.mu.Unlock()
	started := make(chan error)
	var pid int
	onOwnThread(func() { // ends at once; waited for below
		err := g.enter() // where the fork server would be
		if err != nil {
			started <- err
			return
		}
		pid, err = startPrepared(p, &syscall.ProcAttr{
			Dir: temp, Files: []uintptr{child.Fd(), child.Fd(), 2}, Sys: &syscall.SysProcAttr{Setsid: true},
			Env: []string{helperEnv + "=try", "GORACE=atexit_sleep_ms=0"},
		}, path, "read "+secret, "write "+temp+"/new", "mount /dev/shm", "socket 2", "dial udp 192.0.2.1:80",
			"status CapEff CapBnd NoNewPrivs Seccomp", "mkdir /dev/shm/x", "stat /var")
		started <- err
	})
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	release := p.handOver()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	child.Close()
	out, err := io.ReadAll(host)
	if err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || status.ExitStatus() != 0 {
		t.Errorf("%v, %v", status, err)
	}
	release()
	noFolders(t, s)
	for _, want := range []string{`["open ` + secret + `: no such file`, `","","operation not permitted","",`, "unreachable",
		"CapEff=0000000000000000 CapBnd=0000000000000000 NoNewPrivs=1 Seccomp=2\",\"\",\"lstat /var: no such file"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in %s", want, out)
		}
	}
}

func TestPreparedWithoutSandbox(t *testing.T) {
	none := newSpawner(t, Profile{})
	if p, err := none.Prepare("", nil); p != nil || err != nil {
		t.Errorf("%v, %v without a sandbox", p, err)
	}
	if noFiles, noNetwork := none.Confined(); noFiles || noNetwork || none.Missing() != nil {
		t.Error("confined without a sandbox")
	}
}

func startPrepared(p *Prepared, attr *syscall.ProcAttr, path string, args ...string) (int, error) {
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // a process with one thread need not
		return 0, err
	}
	for _, ns := range p.Namespaces {
		if err := unix.Setns(int(ns.Fd()), 0); err != nil {
			return 0, fmt.Errorf("%s: %w", ns.Name(), err)
		}
	}
	err := errors.Join(dropCapabilities(), setNoNewPrivs(), landRestrict(int(p.Ruleset.Fd())))
	if err != nil {
		return 0, err
	}
	program := make([]unix.SockFilter, len(p.Filter)/8)
	for i := range program {
		b := p.Filter[8*i:]
		program[i] = unix.SockFilter{
			Code: uint16(b[0]) | uint16(b[1])<<8, Jt: b[2], Jf: b[3],
			K: uint32(b[4]) | uint32(b[5])<<8 | uint32(b[6])<<16 | uint32(b[7])<<24,
		}
	}
	if err := installFilter(program); err != nil {
		return 0, err
	}
	return syscall.ForkExec(path, append([]string{path}, args...), attr)
}
