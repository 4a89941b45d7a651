package confine

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// benchBounds are what the benchmarks of groups bound.
var benchBounds = []Bounds{{Memory: 1 << 30}, {PIDs: 100}, {CPU: 1}, {Memory: 1 << 30, PIDs: 100, CPU: 1}}

func boundsName(b Bounds) string { return strings.Join(b.kinds().controllers(), "+") }

// perCPU runs f again and again and reports what it takes of a CPU as well,
// which other work on the machine makes no longer.
func perCPU(b *testing.B, f func()) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &before)
	for b.Loop() {
		f()
	}
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &after)
	b.ReportMetric(float64(after.Nano()-before.Nano())/float64(b.N), "cpu-ns/op")
}

// BenchmarkGroupNew makes groups and removes them.
func BenchmarkGroupNew(b *testing.B) {
	for _, bounds := range benchBounds {
		b.Run(boundsName(bounds), func(b *testing.B) {
			groups := openGroups(b, bounds)
			perCPU(b, func() {
				g := getGroup(b, groups, bounds)
				g.spoilt = true
				g.Put()
			})
		})
	}
}

// BenchmarkGroupReuse gets and puts back the same group.
func BenchmarkGroupReuse(b *testing.B) {
	for _, bounds := range benchBounds {
		b.Run(boundsName(bounds), func(b *testing.B) {
			groups := openGroups(b, bounds)
			perCPU(b, func() { getGroup(b, groups, bounds).Put() })
		})
	}
}

// BenchmarkGroupUsage reads what a group uses.
func BenchmarkGroupUsage(b *testing.B) {
	for _, bounds := range benchBounds {
		b.Run(boundsName(bounds), func(b *testing.B) {
			g := getGroup(b, openGroups(b, bounds), bounds)
			perCPU(b, func() { usageOf(b, g) })
		})
	}
}

// BenchmarkGroupEnter goes into a group and home again, as a spawner thread
// does for each start, and moves a process there and back for comparison.
func BenchmarkGroupEnter(b *testing.B) {
	for _, bounds := range benchBounds {
		groups := openGroups(b, bounds)
		g := getGroup(b, groups, bounds)
		b.Run(boundsName(bounds)+"/thread", func(b *testing.B) {
			perCPU(b, func() {
				if err := g.enter(&syscall.SysProcAttr{}); err != nil {
					b.Fatal(err)
				}
				_ = g.leave(nil)
			})
		})
		b.Run(boundsName(bounds)+"/process", func(b *testing.B) {
			s := newSpawner(b, Profile{})
			pid := strconv.Itoa(begin(b, s, shell("exec sleep 1000")).Pid())
			perCPU(b, func() {
				for _, p := range g.parts {
					for _, dir := range []string{p.dir, filepath.Dir(p.tree.own.path)} {
						if err := writeFile(unix.AT_FDCWD, filepath.Join(dir, "cgroup.procs"), pid); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		})
	}
}

// BenchmarkGroupStart starts a child and waits for it: in no group, in a group
// from the start, and in a group that it is moved to afterwards.
func BenchmarkGroupStart(b *testing.B) {
	s := newSpawner(b, Profile{})
	run := func(b *testing.B, g *Group, after func(pid int)) {
		b.Helper()
		spec := Spec{Path: "/bin/true", Group: g}
		for b.Loop() {
			c := begin(b, s, spec)
			if after != nil {
				after(c.Pid())
			}
			if _, err := c.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("none", func(b *testing.B) { run(b, nil, nil) })
	for _, bounds := range append([]Bounds{{}}, benchBounds...) {
		name := "kill" // only, in v2
		if bounds != (Bounds{}) {
			name = boundsName(bounds)
		}
		groups := openGroups(b, bounds)
		g := getGroup(b, groups, bounds)
		b.Run(name+"/inside", func(b *testing.B) { run(b, g, nil) })
		b.Run(name+"/moved", func(b *testing.B) {
			run(b, nil, func(pid int) {
				for _, p := range g.parts { // it may have ended already
					_ = writeFile(unix.AT_FDCWD, filepath.Join(p.dir, "cgroup.procs"), strconv.Itoa(pid))
				}
			})
		})
	}
}
