package probe

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bullpen-run/bullpen/internal/leak"
)

// helperEnv makes this test binary print All as JSON.
const helperEnv = "PROBE_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		if err := json.NewEncoder(os.Stdout).Encode(All()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leak.Main(m)
}

func TestAll(t *testing.T) {
	before := attributes(t)
	var wg sync.WaitGroup
	answers := make([][]Feature, 8)
	for i := range answers {
		wg.Go(func() { answers[i] = All() })
	}
	wg.Wait()
	seen := map[string]bool{}
	for i, f := range answers[0] {
		if f.Name == "" || f.Detail == "" || f.Lost == "" || seen[f.Name] {
			t.Errorf("something is missing in, or twice: %+v", f)
		}
		seen[f.Name] = true
		t.Logf("%-15s %-5v %s", f.Name, f.OK, f.Detail)
		for _, other := range answers {
			if other[i] != f {
				t.Errorf("two answers: %+v and %+v", f, other[i])
			}
		}
	}
	if after := attributes(t); after != before {
		t.Errorf("probing changed the process:\n%s\nbefore:\n%s", after, before)
	}
	noneLeft(t)
}

// noneLeft fails if a group made for probing is left anywhere.
func noneLeft(t *testing.T) {
	t.Helper()
	all, err := Hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		left, err := filepath.Glob(filepath.Join(h.Dir, "bullpen-probe-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("left: %v (%v)", left, err)
		}
	}
}

// attributes are those of the first thread, which stand for the process.
func attributes(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	fmt.Fprintln(&text, "nice", 20-raw)
	for line := range strings.Lines(string(status)) {
		for _, name := range []string{"Cpus_allowed_list", "NoNewPrivs", "Seccomp:", "Uid", "CapEff"} {
			if strings.HasPrefix(line, name) {
				text.WriteString(line)
			}
		}
	}
	return text.String()
}

// TestOrdinaryUser has another user probe: some answers have to differ.
func TestOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), helperEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []Feature
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	said := map[string]Feature{}
	for _, f := range all {
		said[f.Name] = f
		t.Logf("%-15s %-5v %s", f.Name, f.OK, f.Detail)
	}
	if f := said["pid-namespace"]; f.OK || !strings.Contains(f.Detail, "CAP_SYS_ADMIN") {
		t.Errorf("%+v", f)
	}
	for _, name := range []string{"cgroup-v1", "cgroup-v2", "cgroup-kill"} {
		if said[name].OK {
			t.Errorf("an ordinary user has %+v", said[name])
		}
	}
	if f := said["nice"]; !f.OK || !strings.Contains(f.Detail, "not raised") {
		t.Errorf("%+v", f)
	}
	for _, name := range []string{"mount-namespace", "ipc-namespace", "network-namespace"} {
		if f := said[name]; f.OK || !strings.Contains(f.Detail, "CAP_SYS_ADMIN") {
			t.Errorf("%+v", f)
		}
	}
	for _, name := range []string{"pidfd", "memfd", "affinity", "no-new-privs"} {
		if mine := byName(t, name); said[name].OK != mine.OK {
			t.Errorf("%+v; as root %+v", said[name], mine)
		}
	}
}

func byName(t *testing.T, name string) Feature {
	t.Helper()
	for _, f := range All() {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("there is no %q", name)
	return Feature{}
}

func TestOnce(t *testing.T) {
	tries := 0
	ask := once(feature{"name", "lost", func() (bool, string) { tries++; return true, "detail" }})
	for range 3 {
		if got, want := ask(), (Feature{"name", true, "detail", "lost"}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if tries != 1 {
		t.Errorf("tried %d times", tries)
	}
}

func TestOnLostThread(t *testing.T) {
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			tid := 0
			onLostThread(func() { tid = unix.Gettid() })
			if tid == 0 || tid == os.Getpid() {
				t.Errorf("on thread %d of process %d", tid, os.Getpid())
			}
		})
	}
	wg.Wait()
}

func TestCPUList(t *testing.T) {
	for want, cpus := range map[string][]int{
		" (0)": nil, "0 (1)": {0}, "0-2 (3)": {0, 1, 2}, "1,3-4,1023 (4)": {1, 3, 4, 1023},
	} {
		var set unix.CPUSet
		for _, c := range cpus {
			set.Set(c)
		}
		if got := cpuList(&set); got != want {
			t.Errorf("%v: got %q, want %q", cpus, got, want)
		}
	}
}

func TestParseHierarchies(t *testing.T) {
	for _, c := range []struct {
		name, mounts, own string
		want              []Hierarchy
	}{
		{
			"only v2, systemd",
			"30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
			"0::/user.slice/user-1000.slice\n",
			[]Hierarchy{{V2: true, Dir: "/sys/fs/cgroup/user.slice/user-1000.slice", Top: "/sys/fs/cgroup"}},
		},
		{
			"hybrid",
			"33 31 0:30 / /sys/fs/cgroup/cpu\\040acct rw - cgroup cgroup rw,cpu,cpuacct\n" +
				"34 31 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
				"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"3:name=systemd:/\n2:cpu,cpuacct:/a/b\n0::/\n",
			[]Hierarchy{
				{Controllers: []string{"cpu", "cpuacct"}, Dir: "/sys/fs/cgroup/cpu acct/a/b", Top: "/sys/fs/cgroup/cpu acct"},
				{V2: true, Dir: "/sys/fs/cgroup/unified", Top: "/sys/fs/cgroup/unified"},
			},
		},
		{
			"container that shows only its own part",
			"35 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			"4:memory:/docker/1/x\n",
			[]Hierarchy{{Controllers: []string{"memory"}, Dir: "/sys/fs/cgroup/memory/x", Top: "/sys/fs/cgroup/memory"}},
		},
		{
			"path outside of what is shown",
			"35 31 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			"4:memory:/docker/10\n",
			[]Hierarchy{{Controllers: []string{"memory"}, Dir: "/sys/fs/cgroup/memory", Top: "/sys/fs/cgroup/memory"}},
		},
		{"nothing", "1 2 0:3 / / rw - ext4 /dev/x rw\nrubbish\n - cgroup\n", "rubbish\n::\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := parseHierarchies(c.mounts, c.own); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func FuzzParseHierarchies(f *testing.F) {
	f.Add("33 31 0:30 / /a\\040b rw - cgroup cgroup rw,cpu\n", "2:cpu:/a\n")
	f.Add("41 31 0:38 / /u rw - cgroup2 cgroup2 rw\n", "0::/\n")
	f.Add("a b c \\1 \\ f - cgroup2 x y", "0::")
	f.Fuzz(func(t *testing.T, mounts, own string) {
		for _, h := range parseHierarchies(mounts, own) {
			if h.V2 != (h.Controllers == nil) {
				t.Errorf("%+v", h)
			}
		}
	})
}
