package confine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/leak"
)

// patience is far beyond what a fork server needs.
const patience = 30 * time.Second

// interpreter is the Python of these tests, past any script that looks for it.
var interpreter = sync.OnceValue(func() string {
	name := os.Getenv("PYTHON")
	if name == "" {
		name = "python3"
	}
	out, err := exec.Command(name, "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
})

// zygoteSpec is the fork server of process/zygote.py for workers that begin
// with worker, with modules preloaded.
func zygoteSpec(t testing.TB, worker string, modules ...string) Spec {
	t.Helper()
	spec, program, err := zygoteParts(worker, modules...)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return spec
}

// zygoteParts is zygoteSpec where there is no test; the caller closes program.
func zygoteParts(worker string, modules ...string) (spec Spec, program *Memory, err error) {
	var source []byte
	for _, name := range []string{"zygote_worker.py", "zygote.py"} {
		part, err := os.ReadFile(filepath.Join(os.Getenv("ZYGOTE_FOLDER"), "..", "..", "process", name))
		if err != nil {
			return Spec{}, nil, fmt.Errorf("the fork server's program is not here: %w", err)
		}
		source = append(append(source, part...), "\n\n"...)
	}
	if interpreter() == "" {
		return Spec{}, nil, fmt.Errorf("there is no Python: %w", fs.ErrNotExist)
	}
	if program, err = NewMemory("zygote", len(source)); err != nil {
		return Spec{}, nil, err
	}
	copy(program.Bytes(), source)
	const loader = "import os;exec(compile(os.pread(3,1<<20,0),'<bullpen zygote>','exec'),{'__name__':'bullpen_zygote','__file__':'<bullpen zygote>'})"
	return Spec{
		Path: interpreter(), Args: append([]string{interpreter(), "-I", "-S", "-c", loader, worker}, modules...),
		Files: []*os.File{nil, nil, os.Stderr, program.File()},
	}, program, nil
}

// newServer makes one that is closed with the test.
func newServer(t testing.TB, s *Spawner, spec Spec) *Server {
	t.Helper()
	v, err := s.StartServer(t.Context(), spec, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

// code is a worker that runs a piece of Python.
func code(text string, files ...*os.File) Spec {
	return Spec{Args: []string{"-c", text}, Files: files}
}

// fork starts spec or fails the test.
func fork(t testing.TB, v *Server, spec Spec) *Child {
	t.Helper()
	c, err := v.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// forkedOutput runs spec to its end and gives how it ended and what it wrote to
// both its streams.
func forkedOutput(t testing.TB, v *Server, spec Spec) (Exit, string) {
	t.Helper()
	child, host := readPipe(t)
	spec.Files = []*os.File{nil, child, child}
	c := fork(t, v, spec)
	child.Close()
	text, err := io.ReadAll(host)
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return e, string(text)
}

// both runs a test with and without a guard.
func both(t *testing.T, f func(t *testing.T, s *Spawner)) {
	t.Helper()
	for _, guard := range []bool{false, true} {
		t.Run(fmt.Sprintf("guard=%v", guard), func(t *testing.T) {
			leak.Check(t)
			s := newSpawner(t, Profile{Guard: guard})
			if guard {
				needGuard(t, s)
			}
			f(t, s)
		})
	}
}

func TestServerStartsChildren(t *testing.T) {
	both(t, func(t *testing.T, s *Spawner) {
		t.Helper()
		v := newServer(t, s, zygoteSpec(t, "-c"))
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				spec := code("import os; print(os.environ['N'], os.getsid(0) == os.getpid(), os.getppid()); raise SystemExit(int(os.environ['N']))")
				spec.Env = []string{fmt.Sprintf("N=%d", i)}
				want := fmt.Sprintf("%d True %d\n", i, os.Getpid())
				if s.guarded() { // the host is outside of the namespace
					want = fmt.Sprintf("%d True 0\n", i)
				}
				if e, text := forkedOutput(t, v, spec); e.Code != i || e.Signal != 0 || text != want {
					t.Errorf("%v, %q; want exit code %d and %q", e, text, i, want)
				}
			})
		}
		all.Wait()
	})
}

func TestServerExits(t *testing.T) {
	leak.Check(t)
	v := newServer(t, newSpawner(t, Profile{Guard: true}), zygoteSpec(t, "-c"))
	// Since 3.13 a line of the program and one of marks follow.
	trace := func(last string) *regexp.Regexp {
		return regexp.MustCompile(`(?s)^Traceback \(most recent call last\):\n  File "<string>", line \d, in <module>\n(    [^z]*\n)?` + last + `\n$`)
	}
	text := func(want string) *regexp.Regexp { return regexp.MustCompile("^" + regexp.QuoteMeta(want) + "$") }
	anything := regexp.MustCompile("") // some interpreters say where
	for _, c := range []struct {
		code string
		exit Exit
		text *regexp.Regexp
	}{
		{"pass", Exit{}, text("")},
		{"import sys; sys.exit(3)", Exit{Code: 3}, text("")},
		{"import sys; sys.exit(259)", Exit{Code: 3}, text("")},
		{"import sys; sys.exit(-1)", Exit{Code: 255}, text("")},
		{"import sys; sys.exit(True)", Exit{Code: 1}, text("")},
		{"import sys; sys.exit('text')", Exit{Code: 1}, text("text\n")},
		{"import os; os.kill(os.getpid(), 9)", Exit{Code: -1, Signal: syscall.SIGKILL}, text("")},
		{"import os; os.abort()", Exit{Code: -1, Signal: syscall.SIGABRT}, anything},
		{"import ctypes; ctypes.CDLL(None)['raise'](15)", Exit{Code: -1, Signal: syscall.SIGTERM}, text("")},
		{"import ctypes; ctypes.string_at(0)", Exit{Code: -1, Signal: syscall.SIGSEGV}, anything},
		{"1/0", Exit{Code: 1}, trace("ZeroDivisionError: division by zero")},
		{"raise KeyboardInterrupt", Exit{Code: -1, Signal: syscall.SIGINT}, trace("KeyboardInterrupt")},
		{"import os, signal; os.kill(os.getpid(), signal.SIGINT)\nwhile True: pass", Exit{Code: -1, Signal: syscall.SIGINT}, trace("KeyboardInterrupt")},
		{"import atexit; atexit.register(print, 'bye'); print('hello')", Exit{}, text("hello\nbye\n")},
		{"import threading; threading.Thread(target=lambda: (threading.main_thread().join(), print('thread'))).start(); print('main')", Exit{}, text("main\nthread\n")},
		{"f = open('/dev/fd/1', 'w'); f.write('unclosed')", Exit{}, text("unclosed")},
		{"class C:\n def __del__(self): print('del', f())\ndef f(): return 7\nc = C()", Exit{}, text("del 7\n")},
		{"import threading, time; threading.Thread(target=time.sleep, args=(1000,), daemon=True).start(); print('x', end='')", Exit{}, text("x")},
		{"import ctypes; ctypes.CDLL(None).puts(b'from C')", Exit{}, text("from C\n")},
		{"import sys; sys.stdout.close()", Exit{}, text("")},
		{"def", Exit{Code: 1}, regexp.MustCompile("SyntaxError: invalid syntax\n$")},
		{"import sys; sys.excepthook = lambda *a: print('hook', a[1]); 1/0", Exit{Code: 1}, text("hook division by zero\n")},
	} {
		e, said := forkedOutput(t, v, code(c.code))
		e.MaxRSS, e.CPU = 0, 0
		if e != c.exit || !c.text.MatchString(said) || strings.Contains(said, "zygote") {
			t.Errorf("%s: %v, %q; want %v, %v", c.code, e, said, c.exit, c.text)
		}
	}
}

func TestServerChildUsage(t *testing.T) {
	v := newServer(t, newSpawner(t, Profile{}), zygoteSpec(t, "-c"))
	e, err := fork(t, v, code("b = bytearray(64 << 20)\nimport time\nwhile time.process_time() < 0.2: pass")).Wait()
	if err != nil || e.MaxRSS < 64<<20 || e.MaxRSS > 128<<20 || e.CPU < 200*time.Millisecond {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := fork(t, v, code("pass")).Wait(); err != nil || e.MaxRSS < 1<<20 || e.MaxRSS > 48<<20 {
		t.Errorf("a small child: %+v, %v", e, err)
	}
}

func TestServerChildFiles(t *testing.T) {
	both(t, func(t *testing.T, s *Spawner) {
		t.Helper()
		v := newServer(t, s, zygoteSpec(t, "-c"))
		in, hostIn, err := HostWritePipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		defer hostIn.Close()
		out, host := readPipe(t)
		c := fork(t, v, code("import os; os.write(3, b'x\\n'); os.read(6, 1)", nil, nil, out, out, nil, out, in))
		readLine(t, host)
		got := descriptors(t, c.Pid())
		want := map[int]string{0: os.DevNull, 1: os.DevNull, 2: link(t, out), 3: link(t, out), 4: os.DevNull, 5: link(t, out), 6: link(t, in)}
		if !maps.Equal(got, want) {
			t.Errorf("the child has %v, want %v", got, want)
		}
		hostIn.Close()
		if e, err := c.Wait(); err != nil || e.Code != 0 {
			t.Errorf("%v, %v", e, err)
		}
	})
}

func TestServerLargeRequest(t *testing.T) {
	leak.Check(t)
	v := newServer(t, newSpawner(t, Profile{}), zygoteSpec(t, "-c"))
	spec := code("import os, sys; print(len(os.environ), sum(map(len, os.environ.values())), len(sys.argv[1]))")
	spec.Args = append(spec.Args, strings.Repeat("a", 100_000))
	for i := range 20 {
		spec.Env = append(spec.Env, fmt.Sprintf("V%d=%s", i, strings.Repeat("v", 100_000)))
	}
	if e, text := forkedOutput(t, v, spec); e.Code != 0 || text != "20 2000000 100000\n" {
		t.Errorf("%v, %q", e, text)
	}
}

func TestServerRefuses(t *testing.T) {
	leak.Check(t)
	s := newSpawner(t, Profile{Guard: true})
	v := newServer(t, s, zygoteSpec(t, "-c"))
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		spec Spec
		says []string
	}{
		{Spec{Args: []string{"-c", "pass"}, Dir: missing}, []string{"the folder to start in", "No such file", missing}},
		{Spec{Args: []string{missing}}, []string{"can't open file", "No such file", missing}},
		{Spec{Args: []string{"-c"}}, []string{"nothing follows -c"}},
		{Spec{Args: []string{"-c", "pass"}, Files: make([]*os.File, 64)}, []string{"64 files", "63"}},
		{Spec{Args: []string{"-c", "pass", strings.Repeat("x", 1<<20)}}, []string{"1048576 bytes"}},
	} {
		child, err := v.Start(c.spec)
		if err == nil {
			t.Errorf("%v was started", c.spec.Args)
			_ = child.Kill()
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) || errors.Is(err, ErrServerGone) {
				t.Errorf("%v; want %q", err, says)
			}
		}
	}
	if e, err := fork(t, v, code("pass")).Wait(); err != nil || e.Code != 0 {
		t.Errorf("a start after them: %v, %v", e, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open != 0 || len(v.forks) > 1 {
		t.Errorf("%d starts are open, %d are remembered", v.open, len(v.forks))
	}
}

func TestServerCannotBePrepared(t *testing.T) {
	leak.Check(t)
	s := newSpawner(t, Profile{Guard: true})
	folder := t.TempDir()
	for name, text := range map[string]string{
		"threaded": "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), name='sleeper', daemon=True).start()\n",
		"broken":   "def f():\n    raise ValueError('no')\nf()\n",
		"leaver":   "import os\nos._exit(5)\n",
		"hanging":  "import time\ntime.sleep(1000)\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name+".py"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		modules  []string
		patience time.Duration
		says     []string
	}{
		{[]string{"nowhere_to_be_found"}, patience, []string{"importing nowhere_to_be_found failed", "ModuleNotFoundError", "No module named"}},
		{[]string{"json", "broken"}, patience, []string{"importing broken failed", "Traceback", "broken.py", "ValueError: no"}},
		{[]string{"json", "threaded"}, patience, []string{"2 threads", "Started by: threaded", "sleeper", "Leave such modules out"}},
		{[]string{"leaver"}, patience, []string{"exit code 5 before it was ready"}},
		{[]string{"hanging"}, 100 * time.Millisecond, []string{"not ready after 100ms"}},
	} {
		spec := zygoteSpec(t, "-m", c.modules...)
		spec.Dir = folder
		spec.Args = append([]string{interpreter(), "-S"}, spec.Args[3:]...)
		v, err := s.StartServer(t.Context(), spec, c.patience)
		if err == nil {
			t.Errorf("%v were preloaded", c.modules)
			v.Close()
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%v: %v; want %q", c.modules, err, says)
			}
		}
		if strings.Contains(err.Error(), "<bullpen zygote>") {
			t.Errorf("%v: frames of the server show: %v", c.modules, err)
		}
	}
	if _, err := s.StartServer(t.Context(), Spec{Path: "/bin/true"}, patience); err == nil || !strings.Contains(err.Error(), "exit code 0 before it was ready") {
		t.Errorf("a program that is no fork server: %v", err)
	}
}
