package confine

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fakePart is a part on a folder of ordinary files.
func fakePart(t *testing.T, v2, swap bool, files map[string]string) *part {
	t.Helper()
	dir := fakeGroup(t, files)
	fd, err := openFolder(unix.AT_FDCWD, dir)
	if err != nil {
		t.Fatal(err)
	}
	p := &part{tree: &tree{v2: v2, swap: swap, kinds: memoryKind | pidsKind | cpuKind}, dir: dir, fd: fd, tasks: -1, pidsMax: -1, peak: -1}
	t.Cleanup(p.close)
	return p
}

func TestPartBounds(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name     string
		v2, swap bool
		bounds   Bounds
		want     map[string]string
	}{
		{"v2", true, false, Bounds{gib, 7, 1.5, 200}, map[string]string{
			"memory.max": "1073741824", "memory.swap.max": "0", "memory.oom.group": "1",
			"pids.max": "7", "cpu.max": "150000 100000", "cpu.weight": "200",
		}},
		{"v2, nothing", true, false, Bounds{}, map[string]string{
			"memory.max": "max", "memory.swap.max": "max", "memory.oom.group": "0",
			"pids.max": "max", "cpu.max": "max 100000", "cpu.weight": "100",
		}},
		{"v1", false, true, Bounds{gib, 7, 0.01, 1}, map[string]string{
			"memory.limit_in_bytes": "1073741824", "memory.memsw.limit_in_bytes": "1073741824", "memory.swappiness": "",
			"pids.max": "7", "cpu.cfs_quota_us": "1000", "cpu.shares": "10",
		}},
		{"v1, nothing", false, false, Bounds{}, map[string]string{
			"memory.limit_in_bytes": "-1", "memory.memsw.limit_in_bytes": "",
			"pids.max": "max", "cpu.cfs_quota_us": "-1", "cpu.shares": "1024",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			empty := map[string]string{}
			for name := range c.want {
				empty[name] = ""
			}
			p := fakePart(t, c.v2, c.swap, empty)
			if err := p.bound(c.bounds, false); err != nil {
				t.Fatal(err)
			}
			for name, want := range c.want {
				if got, err := os.ReadFile(filepath.Join(p.dir, name)); err != nil || string(got) != want {
					t.Errorf("%s has %q (%v), want %q", name, got, err, want)
				}
			}
		})
	}
	if err := fakePart(t, true, false, nil).bound(Bounds{PIDs: 1}, true); err == nil || !strings.Contains(err.Error(), "pids.max") {
		t.Errorf("without a file: %v", err)
	}
}

func TestPartUsage(t *testing.T) {
	v2 := map[string]string{
		"memory.current": "4096\n", "memory.peak": "8192\n", "memory.events": "low 0\noom 3\noom_kill 3\noom_group_kill 2\n",
		"pids.current": "5\n", "pids.events": "max 9\n", "cpu.stat": "usage_usec 7\nthrottled_usec 1500\n",
	}
	v1 := map[string]string{
		"memory.usage_in_bytes": "4096\n", "memory.max_usage_in_bytes": "8192\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		"pids.current": "5\n", "pids.events": "max 9\n", "cpu.stat": "nr_periods 1\nthrottled_time 1500000\n",
	}
	want := Usage{Memory: 4096, Peak: 8192, OOMKills: 2, PIDsHits: 9, Throttled: 1500 * time.Microsecond, PIDs: 5}
	for _, files := range []map[string]string{v1, v2} {
		p := fakePart(t, files["memory.current"] != "", false, files)
		var u Usage
		if err := p.usage(&u); err != nil || u != want {
			t.Errorf("got %+v, %v", u, err)
		}
		// What was counted before the group was got is left out.
		p.before = counts{oomKills: 1, pidsHits: 4, throttled: time.Millisecond}
		u = Usage{}
		if err := p.usage(&u); err != nil || u.OOMKills != 1 || u.PIDsHits != 5 || u.Throttled != 500*time.Microsecond {
			t.Errorf("got %+v, %v", u, err)
		}
		for name := range files {
			if name == "memory.peak" {
				continue
			}
			if err := os.WriteFile(filepath.Join(p.dir, name), []byte("oom_kill x\nmax x\nthrottled_usec x\nthrottled_time x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := p.usage(&u); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("rubbish in %s: %v", name, err)
			}
			if err := os.WriteFile(filepath.Join(p.dir, name), []byte(files[name]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	delete(v2, "memory.peak") // before Linux 5.19
	p := fakePart(t, true, false, v2)
	var u Usage
	if err := p.usage(&u); err != nil || u.Peak != 0 {
		t.Errorf("without a peak: %+v, %v", u, err)
	}
	if err := p.begin(false); err != nil || p.before.oomKills != 2 {
		t.Errorf("without a peak: %v", err)
	}
}

func TestParseNumber(t *testing.T) {
	for text, want := range map[string]int64{"7\n": 7, "max\n": math.MaxInt64, "0": 0, "9223372036854771712\n": 9223372036854771712} {
		if got, err := parseNumber(text, "file"); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "1 2", "99999999999999999999"} {
		if _, err := parseNumber(text, "file"); err == nil || !strings.Contains(err.Error(), "file") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]uint64{"": 0, "ab 3\n": 0, "a 3": 3, "b 1\na 2\n": 2, "a\n": 0} {
		got, err := parseField(text, "file", "a")
		if text == "a\n" {
			if err == nil {
				t.Error("a key without a number is taken")
			}
		} else if err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
