package leak

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// leakKind, when set, makes this test binary a helper that leaks on purpose.
const leakKind = "BULLPEN_LEAK_KIND"

func TestMain(m *testing.M) {
	if os.Getenv(leakKind) != "" {
		os.Exit(run(m, 100*time.Millisecond)) // what is meant to leak does not settle
	}
	Main(m)
}

// TestHelper is the body of the helper process of TestMainFinds.
func TestHelper(t *testing.T) {
	switch kind := os.Getenv(leakKind); kind {
	case "": // this is not the helper process
	case "nothing":
	case "goroutine":
		go leakedGoroutine(make(chan struct{})) // never ends; that is the leak
	case "descriptor":
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, f)
	case "child", "zombie":
		command := "cat" // ends when TestMainFinds closes the pipe
		if kind == "zombie" {
			command = "true"
		}
		c := exec.Command(command) // without a context: it must outlive the test
		c.Stdin = os.Stdin
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, c)
		for kind == "zombie" && stateOf(c.Process.Pid) != "Z" { // else it lives when it is looked for
			<-time.After(time.Millisecond)
		}
	case "failure":
		t.Error("failed for another reason")
	default:
		t.Fatalf("unknown kind of leak %q", kind)
	}
}

// stateOf returns the state of a process, as proc(5) has it.
func stateOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return rest[:min(1, len(rest))]
}

// kept holds what was leaked, so that no finalizer closes it.
var kept []any

func leakedGoroutine(c chan struct{}) { <-c }

func TestMainFinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ kind, want string }{
		{"nothing", ""},
		{"goroutine", "leak.leakedGoroutine"},
		{"descriptor", "is open: /dev/null"},
		{"child", "lives: cat"},
		{"zombie", "has ended and was not waited for"},
		{"failure", "failed for another reason"},
	} {
		t.Run(c.kind, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS != "linux" && c.kind != "nothing" && c.kind != "goroutine" && c.kind != "failure" {
				t.Skipf("descriptors and processes are looked up in /proc, which %s does not have", runtime.GOOS)
			}
			out, err := helper(t, c.kind)
			if (err == nil) != (c.want == "") {
				t.Fatalf("helper ended with %v, want failure: %v\n%s", err, c.want != "", out)
			}
			if !strings.Contains(out, c.want) {
				t.Errorf("output does not say %q:\n%s", c.want, out)
			}
			if strings.Contains(out, "left this behind") != (c.want != "" && c.kind != "failure") {
				t.Errorf("output is about the wrong thing:\n%s", out)
			}
		})
	}
}

func TestApart(t *testing.T) {
	if Apart(t) {
		go leakedGoroutine(make(chan struct{})) // never ends, and nobody minds
	}
}

// helper runs this test binary so that it leaks one thing, and waits for it.
func helper(t *testing.T, kind string) (string, error) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelper$", "-test.v")
	c.Env = append(os.Environ(), leakKind+"="+kind)
	file := filepath.Join(t.TempDir(), "out") // no pipe: the leaked child would hold it open
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c.Stdout, c.Stderr = f, f
	stdin, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close() // ends the leaked child
	defer stdin.Close()
	c.Stdin = stdin
	failure := c.Run()
	out, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(out), failure
}

func TestCompareWaitsForThingsToSettle(t *testing.T) {
	before := Snapshot()
	done := make(chan struct{})
	go func() { // ends by itself after a moment; Compare waits for it
		<-time.After(50 * time.Millisecond)
		close(done)
	}()
	if err := before.Compare(); err != nil {
		t.Errorf("Compare() = %v, want it to wait", err)
	}
	<-done
}

func TestCompareReportsAllAtOnce(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skipf("descriptors are looked up in /proc, which %s does not have", runtime.GOOS)
	}
	before := Snapshot()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	hold := make(chan struct{})
	defer close(hold)
	go leakedGoroutine(hold) // ends with the test
	err = before.compare(0)
	if err == nil {
		t.Fatal("Compare() = nil, want two descriptors and a goroutine")
	}
	if n := strings.Count(err.Error(), "is open: pipe:["); n != 2 {
		t.Errorf("%d pipe ends reported, want 2:\n%v", n, err)
	}
	if !strings.Contains(err.Error(), "leakedGoroutine") {
		t.Errorf("the goroutine is missing:\n%v", err)
	}
}

func TestOthersCgroup(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skipf("cgroups are a thing of Linux, not of %s", runtime.GOOS)
	}
	for name, want := range map[string]bool{
		"bullpen-":             false, // names nobody
		"bullpen-pool":         false,
		"bullpen-999999999-w1": false, // lives no more
		fmt.Sprintf("bullpen-%d-w1", os.Getpid()):  false, // ours
		fmt.Sprintf("bullpen-%d-w1", os.Getppid()): true,
		fmt.Sprintf("bullpen-%d", os.Getppid()):    true,
	} {
		if got := othersCgroup(name); got != want {
			t.Errorf("othersCgroup(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestReadStatOfOddName(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skipf("processes are looked up in /proc, which %s does not have", runtime.GOOS)
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("there is no sleep command here")
	}
	odd := filepath.Join(t.TempDir(), "a) Z (b")
	if err := os.Symlink(sleep, odd); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), odd, "20")
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s, ok := readStat(c.Process.Pid)
	// The kernel closes what Start waits for a moment before it sets the name.
	for deadline := time.Now().Add(20 * time.Second); ok && s.name != "a) Z (b" && time.Now().Before(deadline); {
		runtime.Gosched()
		s, ok = readStat(c.Process.Pid)
	}
	if !ok || s.parent != os.Getpid() || s.name != "a) Z (b" {
		t.Errorf("readStat() = %+v, %v, want our child %q", s, ok, "a) Z (b")
	}
	_ = c.Process.Kill()
	_ = c.Wait()
}
