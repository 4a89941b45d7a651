//go:build linux

package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
)

const hogBound = 64 << 20

// needGroups skips the test where no control group keeps b.
func needGroups(t *testing.T, b confine.Bounds) {
	t.Helper()
	g, err := confine.OpenGroups(b)
	if err != nil {
		t.Skip(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantMemory(t *testing.T, err error) {
	t.Helper()
	_ = wantOutcome(t, err, bullpen.Memory)
	var me *MemoryError
	if !errors.As(err, &me) || me.Bound != hogBound || me.Peak < hogBound/2 || me.Peak > 8*hogBound {
		t.Errorf("the cause is %#v", me)
	}
	if !strings.Contains(err.Error(), "64 MiB (peak ") {
		t.Errorf("the error does not tell bound and peak: %v", err)
	}
}

func TestMemoryBoundIsKept(t *testing.T) {
	t.Parallel()
	needGroups(t, confine.Bounds{Memory: hogBound})
	p := open(t, Config{Command: []string{self()}, Max: 1, Limits: bullpen.Limits{Memory: hogBound}})
	if !p.Guarantees().MemoryBound {
		t.Errorf("the guarantees are %+v", p.Guarantees())
	}
	feed := p.Events(0)
	if got := do(t, p, "hog", "8"); got != "8" {
		t.Errorf("a modest task gives %q", got)
	}
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "hog", Payload: []byte("512")})
	wantMemory(t, err)
	if got := do(t, p, "hog", "8"); got != "8" {
		t.Errorf("the next task gives %q", got)
	}
	for e := range feed.C {
		if e.Kind == Died {
			if e.Cause != ByBound || !strings.Contains(e.Text, "64 MiB") {
				t.Errorf("the event is %+v", e)
			}
			break
		}
	}
	if n := p.Stats().Deaths[ByBound]; n != 1 {
		t.Errorf("%d deaths by a bound of memory, want 1", n)
	}
}

// A shell whose command is killed for its memory exits by itself.
func TestMemoryBoundOfAnotherProgram(t *testing.T) {
	t.Parallel()
	needGroups(t, confine.Bounds{Memory: hogBound})
	p := open(t, Config{
		Command: []string{"sh", "-c", self() + " zoo hog {}; exit $?"}, Protocol: Exec, Max: 2,
		Limits: bullpen.Limits{Memory: 16 * hogBound, CPU: 2},
	})
	ctx := within(t, 30*time.Second)
	if r, err := p.Execute(ctx, bullpen.Task{Payload: []byte("8")}); err != nil || r.Stats.PeakMemory < 8<<20 {
		t.Errorf("a modest process: %+v, %v", r.Stats, err)
	}
	_, err := p.Execute(ctx, bullpen.Task{Payload: []byte("100"), Limits: bullpen.Limits{Memory: hogBound, CPU: 1}})
	wantMemory(t, err)
	if _, err := p.Execute(ctx, bullpen.Task{Payload: []byte("100")}); err != nil {
		t.Errorf("within the pool's own bound: %v", err)
	}
}

// Without control groups memory is watched, and what cannot be watched is
// refused. Not parallel: it changes what all pools use.
func TestMemoryIsWatchedWithoutGroups(t *testing.T) {
	real := openGroups
	t.Cleanup(func() { openGroups = real })
	openGroups = func(confine.Bounds) (*confine.Groups, error) {
		return nil, fmt.Errorf("no groups in this test: %w", errors.ErrUnsupported)
	}
	p := open(t, Config{Command: []string{self()}, Max: 1, Limits: bullpen.Limits{Memory: hogBound}})
	if g := p.Guarantees(); g.MemoryBound || !strings.Contains(strings.Join(g.Notes, "\n"), "no groups in this test") {
		t.Errorf("the guarantees are %+v", g)
	}
	if got := do(t, p, "hog", "8"); got != "8" {
		t.Errorf("a modest task gives %q", got)
	}
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "hog-and-stay", Payload: []byte("128")})
	wantMemory(t, err)
	e := open(t, Config{Command: []string{self(), "zoo", "hog-and-stay", "{}"}, Protocol: Exec, Limits: bullpen.Limits{Memory: 4 * hogBound}})
	_, err = e.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte("128"), Limits: bullpen.Limits{Memory: hogBound}})
	wantMemory(t, err)
	for _, c := range []Config{{PIDs: 9}, {Weight: 9}, {Limits: bullpen.Limits{CPU: 1, Memory: hogBound}}} {
		c.Command = []string{self()}
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "no groups in this test") {
			t.Errorf("%+v: the error is %v", c, err)
		}
	}
}

func TestTaskLimitsAreKeptOrRefused(t *testing.T) {
	t.Parallel()
	needGroups(t, confine.Bounds{Memory: hogBound, CPU: 1})
	free := open(t, Config{Command: []string{self()}, Max: 1})
	bound := open(t, Config{Command: []string{self()}, Max: 1, Limits: bullpen.Limits{Memory: hogBound, CPU: 1}})
	for _, c := range []struct {
		pool   *Pool
		limits bullpen.Limits
		ok     bool
	}{
		{free, bullpen.Limits{Memory: hogBound}, false},
		{free, bullpen.Limits{CPU: 1}, false},
		{bound, bullpen.Limits{Memory: hogBound, CPU: 1}, true},
		{bound, bullpen.Limits{Memory: 2 * hogBound, CPU: 2}, true},
		{bound, bullpen.Limits{Memory: hogBound / 2}, false},
		{bound, bullpen.Limits{CPU: 0.5}, false},
	} {
		_, err := c.pool.Execute(within(t, time.Minute), bullpen.Task{Name: "pid", Limits: c.limits})
		if c.ok && err != nil || !c.ok && !errors.Is(err, bullpen.ErrRefused) {
			t.Errorf("%+v: %v", c.limits, err)
		}
	}
}

func TestEachWorkerHasItsOwnTemporaryFolder(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	p := open(t, Config{
		Command:  []string{"sh", "-c", `echo x >"$TMPDIR/file"; mkdir "$TMPDIR/ro"; touch "$TMPDIR/ro/x"; chmod 0 "$TMPDIR/ro"; echo "$TMPDIR"`},
		Protocol: Exec, Env: []string{"TMPDIR=" + parent},
	})
	seen := map[string]bool{}
	for range 3 {
		dir := strings.TrimSpace(do(t, p, "", ""))
		if seen[dir] || !strings.HasPrefix(dir, parent+"/") {
			t.Errorf("the folder is %q, after %v", dir, seen)
		}
		seen[dir] = true
		poll(t, "the folder is removed", func() bool {
			_, err := os.Stat(dir)
			return errors.Is(err, os.ErrNotExist)
		})
	}
	odd := open(t, Config{
		Name: strings.Repeat("a/b*ü", 50), Command: []string{"sh", "-c", `echo "$TMPDIR"`}, Protocol: Exec, Env: []string{"TMPDIR=" + parent},
	})
	if dir := strings.TrimSpace(do(t, odd, "", "")); filepath.Dir(filepath.Dir(dir)) != parent || len(filepath.Base(dir)) > 40 {
		t.Errorf("with an odd name the folder is %q", dir)
	}
	none := open(t, Config{
		Command: []string{"sh", "-c", `echo "$TMPDIR"`}, Protocol: Exec, Env: []string{"TMPDIR=" + parent},
		Sandbox: Sandbox{Profile: ProfileNone},
	})
	if got := strings.TrimSpace(do(t, none, "", "")); got != parent {
		t.Errorf("without a sandbox the folder is %q", got)
	}
}

func TestStrictSandbox(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"secret": "s3cret", "given": "g1ven", "shared": "sh"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := Config{
		Command: []string{"sh", "-c", `while read -r x; do (eval "$x") 2>&1 | head -n 1; done`}, Protocol: Lines, Max: 1,
		Sandbox: Sandbox{Profile: ProfileStrict, Allow: []string{filepath.Join(dir, "given") + ":ro", filepath.Join(dir, "shared")}},
	}
	if p, err := New(config); err != nil {
		t.Skip(err)
	} else if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p := open(t, config)
	g := p.Guarantees()
	if !g.NoFilesystem || !g.NoNetwork {
		t.Errorf("the guarantees are %+v", g)
	}
	for command, want := range map[string]string{
		"cat " + dir + "/given":                                "g1ven",
		"echo new >" + dir + "/shared; cat " + dir + "/shared": "new",
		`echo t >"$TMPDIR/t"; cat "$TMPDIR/t"`:                 "t",
		"head -c 2 /usr/bin/env | tail -c 1; echo":             "E",
	} {
		if got := do(t, p, "", command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
	for _, command := range []string{
		"cat " + dir + "/secret; echo $?", "ls " + filepath.Dir(dir) + "; echo $?", "ls /root; echo $?",
		"echo x >" + dir + "/given; echo $?", "echo x >/usr/x; echo $?", "kill -0 " + fmt.Sprint(os.Getppid()) + "; echo $?",
		"cat /proc/" + fmt.Sprint(os.Getpid()) + "/environ; echo $?",
	} {
		if got := do(t, p, "", command); strings.Contains(got, "s3cret") || got == "0" || got == "" {
			t.Errorf("%s: %q, want a refusal", command, got)
		}
	}
}

// A worker that does not start in the strict sandbox most often lacks a file.
func TestStrictSandboxSaysHowToAllow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "part"), []byte("exit 0"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := New(quick(Config{
		Command: []string{"sh", "-c", ". " + dir + "/part"}, Max: 1, Sandbox: Sandbox{Profile: ProfileStrict},
	}))
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	_, err = p.Execute(within(t, time.Minute), bullpen.Task{Name: "x"})
	if !errors.Is(err, bullpen.ErrStart) || !strings.Contains(err.Error(), "Sandbox.Allow") {
		t.Errorf("the error is %v", err)
	}
}

func TestBadBounds(t *testing.T) {
	t.Parallel()
	_, err := New(Config{
		Command: []string{"sh"}, PIDs: -1, Weight: 10001, IO: 7, OOMScore: 1001,
		Limits:  bullpen.Limits{Memory: 4096, CPU: 0.001},
		Sandbox: Sandbox{Profile: 9, Temp: -1, Allow: []string{"", "/nowhere/at/all", ":ro"}},
	})
	if err == nil {
		t.Fatal("New takes it")
	}
	for _, want := range []string{
		"PIDs is -1", "Weight is 10001", "IO is 7", "OOMScore is 1001", "Limits.Memory is 4096", "Limits.CPU is 0.001",
		"Sandbox.Profile is 9", "Sandbox.Temp is -1", `Sandbox.Allow has ""`, "/nowhere/at/all", `Sandbox.Allow has ":ro"`,
		"need ProfileStrict",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
}
