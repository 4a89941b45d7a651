//go:build linux

package process

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
)

const forkedWorker = `
import os, random, sys
import bullpen

@bullpen.task
def about(payload: bytes) -> bytes:
    import json
    return json.dumps({
        "loaded": "decimal" in sys.modules, "random": random.random(), "temp": os.environ.get("TMPDIR"),
        "file": __file__, "name": __name__, "argv": sys.argv, "group": open("/proc/self/cgroup").read(),
        "session": os.getsid(0) == os.getpid(), "preload": os.environ.get("BULLPEN_ZYGOTE"),
    }).encode()

@bullpen.task
def end(payload: bytes) -> bytes:
    os._exit(int(payload))

@bullpen.task
def hog(payload: bytes) -> bytes:
    return str(len(bytearray(int(payload) << 20))).encode()

@bullpen.task
def read(payload: bytes) -> bytes:
    return open(payload.decode()).read().encode()

@bullpen.task
def write(payload: bytes) -> bytes:
    with open(os.environ["TMPDIR"] + "/x", "w") as f:
        f.write("mine")
    return open(f.name).read().encode()

bullpen.run()
`

// preloaded is the configuration of a pool whose workers are forked.
func preloaded(t *testing.T, program string) Config {
	t.Helper()
	c := python(t)
	file := filepath.Join(t.TempDir(), "forked.py")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Command = append(c.Command[:1:1], file, "argument")
	c.Preload, c.Max = []string{"decimal", "json"}, 2
	return c
}

// zygotePID waits for the process from which workers are forked.
func zygotePID(t *testing.T, p *Pool) int {
	t.Helper()
	server, err := p.forkServer.current()
	if err != nil {
		t.Fatal(err)
	}
	return server.Child().Pid()
}

func TestPreloadForksWorkers(t *testing.T) {
	t.Parallel()
	p := open(t, preloaded(t, forkedWorker))
	about := do(t, p, "about", "")
	for _, want := range []string{`"loaded": true`, `"name": "__main__"`, `forked.py", "argument"]`, `"session": true`, `"preload": null`} {
		if !strings.Contains(about, want) {
			t.Errorf("the worker lacks %s: %s", want, about)
		}
	}
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "end", Payload: []byte("7")})
	if te := wantOutcome(t, err, bullpen.Crashed); te.ExitCode != 7 {
		t.Errorf("the exit code is %d, want 7", te.ExitCode)
	}
	again := do(t, p, "about", "")
	number := func(text string) string {
		_, rest, _ := strings.Cut(text, `"random": `)
		return rest[:10]
	}
	if number(about) == number(again) {
		t.Errorf("two workers have one random number: %s", number(again))
	}
	if s := p.Stats(); s.Started != 2 || s.FailedStarts != 0 {
		t.Errorf("%d workers started, %d failed", s.Started, s.FailedStarts)
	}
}

// The death of the process that forks touches no worker, and it is replaced.
func TestPreloadingProcessKilled(t *testing.T) {
	t.Parallel()
	c := preloaded(t, forkedWorker)
	c.Min = 1
	p := open(t, c)
	before := do(t, p, "about", "")
	pid := zygotePID(t, p)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := do(t, p, "about", ""); got[:60] == "" || len(got) < len(before)/2 {
		t.Errorf("the worker gives %s", got)
	}
	if s := p.Stats(); s.Started != 1 || s.Deaths[ByExit]+s.Deaths[BySignal] != 0 {
		t.Errorf("after the death: %+v", s)
	}
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "end", Payload: []byte("0")})
	_ = wantOutcome(t, err, bullpen.Crashed)
	do(t, p, "about", "")
	if now := zygotePID(t, p); now == pid {
		t.Errorf("process %d still serves", now)
	}
}

func TestPreloadKeepsBoundsAndFolders(t *testing.T) {
	t.Parallel()
	needGroups(t, confine.Bounds{Memory: hogBound})
	c := preloaded(t, forkedWorker)
	c.Limits.Memory = hogBound
	p := open(t, c)
	if got := do(t, p, "write", ""); got != "mine" {
		t.Errorf("the temporary file has %q", got)
	}
	if got := do(t, p, "hog", "4"); got != strconv.Itoa(4<<20) {
		t.Errorf("a modest task gives %q", got)
	}
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "hog", Payload: []byte("300")})
	wantMemory(t, err)
	if got := do(t, p, "hog", "4"); got != strconv.Itoa(4<<20) {
		t.Errorf("the next worker gives %q", got)
	}
}

func TestPreloadInTheStrictSandbox(t *testing.T) {
	t.Parallel()
	c := preloaded(t, forkedWorker)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Sandbox.Profile = ProfileStrict
	if p, err := New(c); err != nil {
		t.Skip(err)
	} else if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p := open(t, c)
	if got := do(t, p, "write", ""); got != "mine" {
		t.Errorf("the temporary file has %q", got)
	}
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "read", Payload: []byte(secret)})
	_ = wantOutcome(t, err, bullpen.Failed)
	if _, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "read", Payload: []byte(c.Command[1])}); err != nil {
		t.Errorf("its own script: %v", err)
	}
}

func TestPreloadOfWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := preloaded(t, forkedWorker)
	c.Preload = []string{"no_such_module"}
	p := open(t, c)
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "about"})
	if !errors.Is(err, bullpen.ErrStart) || !strings.Contains(err.Error(), "ModuleNotFoundError: No module named 'no_such_module'") {
		t.Errorf("the error is %v", err)
	}
	for _, c := range []Config{
		{Command: []string{"sh", "-c", "x"}, Preload: []string{"json"}},
		{Command: []string{"python3"}, Preload: []string{"json"}},
		{Command: []string{"python3", "x.py"}, Preload: []string{"a b"}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "Preload") {
			t.Errorf("%q: the error is %v", c.Command, err)
		}
	}
}

// A module that does not end its import holds nobody up who closes the pool.
func TestCloseWhilePreloading(t *testing.T) {
	t.Parallel()
	c := preloaded(t, forkedWorker)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "sleepy.py"), []byte("print('asleep', flush=True)\nwhile True: pass\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, e := range c.Env {
		if strings.HasPrefix(e, "PYTHONPATH=") {
			c.Env[i] = e + string(filepath.ListSeparator) + dir
		}
	}
	j := newJournal()
	c.Preload, c.Min, c.Logger = []string{"sleepy"}, 1, j.logger()
	p, err := New(quick(c))
	if err != nil {
		t.Fatal(err)
	}
	poll(t, "the module is being imported", func() bool {
		for _, e := range j.lines() {
			if e.attrs["text"] == "asleep" {
				return true
			}
		}
		return false
	})
	began := time.Now()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("Close took %v", d)
	}
	checkEmpty(t, p)
}
