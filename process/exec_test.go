//go:build unix

package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

func execPool(t *testing.T, change func(*Config), command ...string) *Pool {
	t.Helper()
	c := Config{Command: command, Protocol: Exec, Max: 2}
	if change != nil {
		change(&c)
	}
	return open(t, c)
}

func TestExecPassesThePayload(t *testing.T) {
	t.Parallel()
	payload := "a line\nand 'quotes' \"and\" $HOME; exit 3\n"
	for _, command := range [][]string{{"cat"}, {"printf", "%s", "{}"}} {
		p := execPool(t, nil, command...)
		if got := do(t, p, "", payload); got != payload {
			t.Errorf("%q: the output is %q", command, got)
		}
		if got := do(t, p, "", ""); got != "" {
			t.Errorf("%q: nothing became %q", command, got)
		}
	}
	p := execPool(t, nil, "echo", "pre-{}-{}.txt")
	if got := do(t, p, "", "x"); got != "pre-x-x.txt\n" {
		t.Errorf("within an argument: %q", got)
	}
	p = execPool(t, nil, "sh", "-c", `cat; echo "$0"`, "{}")
	if got := do(t, p, "", "x"); got != "x\n" {
		t.Errorf("standard input is not empty with {}: %q", got)
	}
	big := bytes.Repeat([]byte("z"), 5<<20)
	p = execPool(t, nil, "cat")
	if got := do(t, p, "", string(big)); len(got) != len(big) {
		t.Errorf("5 MiB came back as %d bytes", len(got))
	}
	p = execPool(t, nil, "true") // does not read
	do(t, p, "", string(big))
}

func TestExecEnds(t *testing.T) {
	t.Parallel()
	p := execPool(t, nil, "sh", "-c", "{}")
	for _, c := range []struct {
		script, signal string
		exit           int
		want           bullpen.Outcome
		message        string
	}{
		{"echo why >&2; echo 'last line' >&2; exit 3", "", 3, bullpen.Failed, "exit status 3: last line"},
		{"exit 1", "", 1, bullpen.Failed, "exit status 1"},
		{"kill -KILL $$", "killed", -1, bullpen.Crashed, ""},
		{"kill -SEGV $$", "segmentation fault", -1, bullpen.Crashed, ""},
	} {
		_, err := p.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte(c.script)})
		te := wantOutcome(t, err, c.want)
		if te.ExitCode != c.exit || te.Signal != c.signal || te.Message != c.message {
			t.Errorf("%s: %+v", c.script, te)
		}
		if c.exit == 3 && te.Detail != "why\nlast line" {
			t.Errorf("the last lines of stderr are %q", te.Detail)
		}
	}
	if got := do(t, p, "", "echo well"); got != "well\n" {
		t.Errorf("after the failures: %q", got)
	}
}

func TestExecEnvironment(t *testing.T) {
	t.Parallel()
	p := execPool(t, func(c *Config) { c.Env = []string{"GIVEN=by the pool"} }, "sh", "-c",
		`echo "$TASK_ID|$TASK_NAME|$TASK_META_color|$GIVEN|${TASK_DEADLINE_MS:-none}"`)
	r, err := p.Execute(within(t, time.Minute), bullpen.Task{ID: "id-1", Name: "job", Meta: map[string]string{"color": "blue"}})
	if err != nil || string(r.Payload) != "id-1|job|blue|by the pool|none\n" {
		t.Errorf("the environment is %q, %v", r.Payload, err)
	}
	r, err = p.Execute(within(t, time.Minute), bullpen.Task{Limits: bullpen.Limits{Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	at, err := strconv.ParseInt(strings.TrimSpace(string(r.Payload[bytes.LastIndexByte(r.Payload, '|')+1:])), 10, 64)
	if left := time.Until(time.UnixMilli(at)); err != nil || left < 30*time.Second || left > time.Minute {
		t.Errorf("the deadline is %v from now, %v", left, err)
	}
}

func TestExecOutputBound(t *testing.T) {
	t.Parallel()
	p := execPool(t, func(c *Config) { c.Limits.Output = 1 << 20 }, "sh", "-c", "{}")
	began := time.Now()
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte("exec cat /dev/zero")})
	_ = wantOutcome(t, err, bullpen.Output)
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("endless output was ended after %v", d)
	}
	if got := do(t, p, "", "head -c 1048576 /dev/zero"); len(got) != 1<<20 {
		t.Errorf("the largest output allowed came back with %d bytes", len(got))
	}
}

func TestExecRefusesWhatCannotBeAnArgument(t *testing.T) {
	t.Parallel()
	p := execPool(t, nil, "echo", "{}")
	for _, payload := range []string{"a\x00b", strings.Repeat("x", 1<<20)} {
		_, err := p.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte(payload)})
		wantNeverStarted(t, err, bullpen.ErrRefused)
	}
	if got := do(t, p, "", "fine"); got != "fine\n" {
		t.Errorf("after that: %q", got)
	}
}

func TestExecManyAtOnce(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := execPool(t, func(c *Config) { c.Max, c.Logger = 100, j.logger() }, "sh", "-c", `read x; sleep 0.3; echo "$x"`)
	began := time.Now()
	for i, e := range p.ExecuteAll(within(t, 60*time.Second), numbers(100)) {
		if e.Err != nil || strings.TrimSpace(string(e.Result.Payload)) != strconv.Itoa(i) {
			t.Fatalf("task %d: %q, %v", i, e.Result.Payload, e.Err)
		}
	}
	if d := time.Since(began); d > 15*time.Second {
		t.Errorf("100 tasks of 0.3 s, 100 at a time, took %v", d)
	}
	if s := p.Stats(); s.Started != 100 || s.Stopped != 100 || s.RunTime.Count != 100 {
		t.Errorf("%d started, %d stopped, %d run times", s.Started, s.Stopped, s.RunTime.Count)
	}
	j.wantNoFaults(t)
}

// What a process leaves behind in its own session keeps the pipes, and holds
// nobody up.
func TestExecWithADaemonBehindIt(t *testing.T) {
	t.Parallel()
	p := execPool(t, func(c *Config) { c.Grace = 100 * ms }, "sh", "-c", "setsid sleep 1000 & echo done")
	began := time.Now()
	if got := do(t, p, "", ""); got != "done\n" {
		t.Errorf("the output is %q", got)
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
}

func TestExecOfWhatIsNoProgram(t *testing.T) {
	t.Parallel()
	p := execPool(t, func(c *Config) { c.Dir = t.TempDir() }, "sh", "-c", "exit 0")
	p.config.path = "/no/such/program" // it is there when the pool is made, and gone later
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{})
	var se *StartError
	if !errors.As(err, &se) || !errors.Is(err, bullpen.ErrStart) {
		t.Errorf("the error is %v", err)
	}
}

func TestExecLongerThanASilentFilterMayBe(t *testing.T) {
	t.Parallel()
	p := execPool(t, nil, "sh", "-c", "sleep 1.2; echo slept")
	if got := do(t, p, "", ""); got != "slept\n" {
		t.Errorf("the output is %q", got)
	}
}

// TestExecThatIsReadLate has the host come to read only when the time for that is over:
// what the process has written before its end is there all the same.
func TestExecThatIsReadLate(t *testing.T) {
	t.Parallel()
	p := execPool(t, func(c *Config) { c.Grace = time.Nanosecond }, "sh", "-c", "echo result; echo why >&2; exit $0", "{}")
	for range 50 {
		if got := do(t, p, "", "0"); got != "result\n" {
			t.Fatalf("the result is %q", got)
		}
		_, err := p.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte("3")})
		var te *bullpen.TaskError
		if !errors.As(err, &te) || te.Message != "exit status 3: why" {
			t.Fatalf("the error is %v", err)
		}
	}
}

// TestRestOfAPipe reads a pipe whose deadline has passed: what is there, and no more.
func TestRestOfAPipe(t *testing.T) {
	t.Parallel()
	var made pipes
	if err := made.open(&made.stdout); err != nil {
		t.Fatal(err)
	}
	defer made.closeHost()
	defer made.closeChild()
	text := strings.Repeat("x", 10_000)
	if _, err := made.stdout.child.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := made.stdout.host.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	r := &rest{File: made.stdout.host}
	got, err := io.ReadAll(r) // a writer is still there, so this is no end of file
	if string(got) != text || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
	r.after = lastBytes
	if _, err := made.stdout.child.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); len(got) > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("beyond the bound %d bytes, %v", len(got), err)
	}
}
