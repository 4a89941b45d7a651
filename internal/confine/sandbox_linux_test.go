package confine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/probe"
)

// needStrict skips where a whole sandbox is not to be had.
func needStrict(t testing.TB) {
	t.Helper()
	for _, f := range []probe.Feature{
		probe.MountNamespace(), probe.IPCNamespace(), probe.NetworkNamespace(), probe.Landlock(), probe.Seccomp(), probe.PIDNamespace(),
	} {
		if !f.OK {
			t.Skip("no whole sandbox: " + f.Name + ": " + f.Detail)
		}
	}
}

// needScopes skips where landlock does not keep signals inside.
func needScopes(t testing.TB) {
	t.Helper()
	if l, err := newLandlock(false, false, false); err != nil || l.abi < landABIScope {
		t.Skip("no landlock scopes: " + probe.Landlock().Detail)
	}
}

// strict is a Spawner with a sandbox that lets the test binary run.
func strict(t testing.TB, p Profile, s Strict) *Spawner {
	t.Helper()
	s.Read = append([]string{testFolder(t)}, s.Read...)
	p.Strict = &s
	made := newSpawner(t, p)
	if len(made.sandbox.missing) > 0 && !s.BestEffort {
		t.Fatalf("missing: %q", made.Missing())
	}
	return made
}

// temporary is a folder without symbolic links in its path.
func temporary(t testing.TB) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// put makes a file.
func put(t testing.TB, path string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("here"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStrictFiles(t *testing.T) {
	needStrict(t)
	read, write, secret, temp := temporary(t), temporary(t), temporary(t), temporary(t)
	for _, dir := range []string{read, write, secret} {
		put(t, dir+"/file")
	}
	if err := os.Symlink(read, secret+"/link"); err != nil {
		t.Fatal(err)
	}
	s := strict(t, Profile{Guard: true}, Strict{Read: []string{secret + "/link"}, Write: []string{write}})
	check(t, s, temp,
		want{"read " + read + "/file", ""}, want{"read " + secret + "/link/file", ""}, want{"read " + write + "/file", ""},
		want{"read " + secret + "/file", "no such file"},
		want{"list /root", "no such file"}, want{"list /home", "no such file"}, want{"stat /var", "no such file"}, want{"stat /run", "no such file"},
		want{"read /etc/passwd", ""}, want{"read /etc/shadow", "denied"}, want{"list /usr/bin", "sh"},
		want{"read /proc/self/status", ""}, want{"read /proc/meminfo", ""}, want{"read /proc/cpuinfo", ""},
		want{"read /sys/devices/system/cpu/online", ""},
		want{"write /dev/null", ""}, want{"write /dev/full", "no space"}, want{"stat /dev/fd/1", ""}, want{"stat /dev/sda", "no such file"},
		want{"write " + write + "/new", ""}, want{"mkdir " + write + "/folder", ""}, want{"chmod " + write + "/file", ""},
		want{"write " + read + "/new", "read-only"}, want{"write " + read + "/file", "read-only"}, want{"chmod " + read + "/file", "read-only"},
		want{"write /etc/new", "read-only"}, want{"chmod /etc/passwd", "read-only"}, want{"write /new", "read-only"},
		want{"write /proc/self/comm", "read-only"}, want{"mkdir /dev/shm/x", ""}, want{"write /dev/new", "read-only"},
		want{"write " + temp + "/new", ""}, want{"mkdir " + temp + "/folder", ""},
		want{"setid " + temp + "/program", "not permitted"}, want{"setid " + write + "/program", "not permitted"},
		want{"openat2 /etc/passwd", "not implemented"},
	)
	if all, err := os.ReadDir(temp); err != nil || len(all) > 0 {
		t.Errorf("the host sees %v (%v) in the temporary folder", all, err)
	}
	if _, err := os.Stat(write + "/new"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("/dev/shm/x"); err == nil {
		t.Error("the host sees what a child has put into /dev/shm")
	}
	noFolders(t, s)
}

// noFolders fails if the places for temporary folders are not given up.
func noFolders(t testing.TB, s *Spawner) {
	t.Helper()
	s.mu.Lock()
	v := s.current.view
	s.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.folders) > 0 {
		t.Errorf("left in the sandbox: %v", v.folders)
	}
}

func TestStrictTemp(t *testing.T) {
	needStrict(t)
	s := strict(t, Profile{Guard: true}, Strict{TempSize: 1 << 20})
	one, other := temporary(t), temporary(t)
	check(t, s, one,
		want{"getwd", one}, // the host's own cannot be seen
		want{"fill " + one + "/big", "after 1024 KiB: write " + one + "/big: no space"},
		want{"fill /dev/shm/big", "no space"},
		want{"stat " + other, "no such file"}, want{"list " + filepath.Dir(one), "denied"})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { // same names, other folders, at once
			dir := fmt.Sprintf("%s/%d", other, i)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Error(err)
				return
			}
			check(t, s, dir, want{"list " + dir, ""}, want{"mkdir " + dir + "/x", ""}, want{"mkdir /dev/shm/x", ""}, want{"list " + dir, "x"})
		})
	}
	wg.Wait()
	noFolders(t, s)
	for _, temp := range []string{"relative", one + "/missing", one + "/", "/"} {
		if _, err := s.Start(Spec{Path: "/bin/true", Temp: temp}); err == nil || !strings.Contains(err.Error(), "Spec.Temp") {
			t.Errorf("%s: %v", temp, err)
		}
	}
}

func TestStrictCalls(t *testing.T) {
	needStrict(t)
	s := strict(t, Profile{Guard: true}, Strict{})
	const no, notThere, family = "not permitted", "not implemented", "address family not supported"
	check(t, s, temporary(t),
		want{"mount /dev/shm", no}, want{"fsopen", no}, want{"chroot /usr", no},
		want{"unshare", no}, want{"setns", no}, want{"clone 0", ""}, want{"clone3", notThere},
		want{"clone 0x10000000", no}, want{"clone 0x20000", no}, want{"clone 0x20000000", no},
		want{"ptrace", no}, want{"bpf", no}, want{"keyctl", no}, want{"io_uring", no}, want{"tiocsti", no},
		want{"socket 1", ""}, want{"socket 2", ""}, want{"socket 10", ""}, want{"netlink 0", ""},
		want{"netlink 2", "protocol not supported"}, want{"socket 38", family}, want{"socket 40", family}, want{"socket 16", "socket type not supported"},
		want{"status Seccomp NoNewPrivs CapInh CapPrm CapEff CapBnd CapAmb", "CapInh=0000000000000000 CapPrm=0000000000000000 CapEff=0000000000000000 " +
			"CapBnd=0000000000000000 CapAmb=0000000000000000 NoNewPrivs=1 Seccomp=2"},
	)
}

func TestStrictNetwork(t *testing.T) {
	needStrict(t)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract, err := net.Listen("unix", fmt.Sprintf("@confine-test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	named, err := net.Listen("unix", temporary(t)+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer named.Close()
	temp := temporary(t)
	dials := func(tcpSays, abstractSays, namedSays string) []want {
		return []want{
			{"dial tcp " + tcp.Addr().String(), tcpSays}, {"dial unix " + abstract.Addr().String(), abstractSays},
			{"dial unix " + named.Addr().String(), namedSays}, {"listen unix " + temp + "/mine", ""},
		}
	}
	s := strict(t, Profile{Guard: true}, Strict{})
	if noFiles, noNetwork := s.Confined(); !noFiles || !noNetwork {
		t.Errorf("Confined: %v, %v", noFiles, noNetwork)
	}
	begun := time.Now()
	check(t, s, temp, append(dials("dial tcp", "dial unix", "no such file"),
		want{"dial tcp 192.0.2.1:80", "dial tcp"}, want{"dial udp 192.0.2.1:80", "unreachable"})...)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("finding out took %v", took)
	}
	open := strict(t, Profile{Guard: true}, Strict{Network: true})
	if noFiles, noNetwork := open.Confined(); !noFiles || noNetwork {
		t.Errorf("Confined with the network: %v, %v", noFiles, noNetwork)
	}
	check(t, open, temp, append(dials("", "", "no such file"), want{"listen tcp 127.0.0.1:0", ""})...)
}

func TestStrictProcesses(t *testing.T) {
	needStrict(t)
	for _, guard := range []bool{true, false} {
		t.Run(fmt.Sprintf("guard=%v", guard), func(t *testing.T) {
			if !guard {
				needScopes(t)
			}
			s := strict(t, Profile{Guard: guard}, Strict{})
			child, host := readPipe(t)
			other := begin(t, s, shell("echo $$; exec sleep 1000", nil, child))
			number := readLine(t, host)
			wants := []want{{"stat /proc/" + number, "no such file"}, {"processes", "1 of "}}
			if len(s.Missing()) == 0 {
				wants = append(wants, want{"kill " + number, "not permitted"}, want{"kill 1", "not permitted"})
			}
			if !guard {
				wants = append(wants, want{"kill " + strconv.Itoa(os.Getpid()), "not permitted"})
			}
			check(t, s, temporary(t), wants...)
			var link, pid int
			got := attempt(t, s, temporary(t), "self")[0]
			if n, err := fmt.Sscanf(got, "%d of %d", &link, &pid); n != 2 || err != nil {
				t.Error(got)
			} else if link != pid {
				t.Logf("before Linux 6.17 /proc shows the numbers outside: %d for %d", link, pid)
			}
			if err := other.Kill(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStrictHostIsLeftAlone looks at all threads of this process during and
// after many starts.
func TestStrictHostIsLeftAlone(t *testing.T) {
	needStrict(t)
	needScopes(t)
	before := threads(t)
	for _, guard := range []bool{true, false} {
		s, err := NewSpawner(Profile{Guard: guard, NoNewPrivs: true, Strict: &Strict{}})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 5 {
					if e, err := begin(t, s, shell("exit 3")).Wait(); err != nil || e.Code != 3 {
						t.Errorf("%v, %v", e, err)
					}
				}
			})
		}
		wg.Wait()
		for range 4 {
			begin(t, s, shell("exec sleep 1000"))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		awaitClean(t)
	}
	if after := threads(t); after > before+20 {
		t.Errorf("%d threads before, %d after", before, after)
	}
}

// awaitClean fails unless all threads of this process become unrestricted.
func awaitClean(t testing.TB) {
	t.Helper()
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		found := restricted(t, own)
		if len(found) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("restricted threads: %q", found)
		}
	}
}

func restricted(t testing.TB, mounts string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/task/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		text, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			if (strings.HasPrefix(line, "Seccomp:") || strings.HasPrefix(line, "NoNewPrivs:")) && !strings.HasSuffix(line, "\t0\n") {
				found = append(found, dir+" "+strings.TrimSpace(line))
			}
		}
		if ns, err := os.Readlink(dir + "/ns/mnt"); err == nil && ns != mounts {
			found = append(found, dir+" "+ns)
		}
	}
	return found
}

func TestStrictRefused(t *testing.T) {
	missing := t.TempDir() + "/missing"
	for _, c := range []struct {
		strict Strict
		says   []string
	}{
		{Strict{Read: []string{missing}, Write: []string{missing + "2"}}, []string{missing, missing + "2", "no such file"}},
		{Strict{Read: []string{"/"}, TempSize: -1}, []string{"name the folders in it", "TempSize"}},
		{Strict{Write: []string{""}}, []string{"not a path"}},
	} {
		s, err := NewSpawner(Profile{Strict: &c.strict, Guard: true})
		if err == nil {
			s.Close()
			t.Errorf("%+v was taken", c.strict)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%+v: %v; want %q", c.strict, err, says)
			}
		}
	}
	needStrict(t)
	s := strict(t, Profile{Guard: true}, Strict{})
	outside := temporary(t) + "/program"
	if err := os.WriteFile(outside, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := s.Start(Spec{Path: outside})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "the sandbox has to grant") {
		t.Errorf("a program outside: %v", err)
	}
	_, err = s.Start(Spec{Path: outside + "2"})
	if !errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "sandbox") {
		t.Errorf("a program that is not there: %v", err)
	}
	awaitClean(t)
}
