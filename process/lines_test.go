//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/confine"
	"github.com/bullpen-run/bullpen/internal/wire"
)

func linesPool(t *testing.T, change func(*Config), command ...string) *Pool {
	t.Helper()
	c := Config{Command: command, Protocol: Lines, Max: 1}
	if change != nil {
		change(&c)
	}
	return open(t, c)
}

func numbers(n int) []bullpen.Task {
	tasks := make([]bullpen.Task, n)
	for i := range tasks {
		tasks[i].Payload = strconv.AppendInt(nil, int64(i), 10)
	}
	return tasks
}

// Many lines are in flight; each answer comes back to its own task.
func TestLinesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	p := linesPool(t, func(c *Config) { c.Max, c.Window = 2, 16 }, "cat")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i, e := range p.ExecuteAll(within(t, 60*time.Second), numbers(20_000)) {
				if e.Err != nil || string(e.Result.Payload) != strconv.Itoa(i) {
					t.Errorf("line %d came back as %q, %v", i, e.Result.Payload, e.Err)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestLinesOfAllLengths(t *testing.T) {
	t.Parallel()
	p := linesPool(t, func(c *Config) { c.Limits.Output = 3 << 20 }, "cat")
	for _, n := range []int{0, 1, 4 << 10, 4<<10 + 1, 64 << 10, 64<<10 - 1, 1 << 20, 3 << 20} {
		if got := do(t, p, "", strings.Repeat("x", n)); len(got) != n {
			t.Errorf("a line of %d bytes came back with %d", n, len(got))
		}
	}
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Payload: make([]byte, 4<<20)})
	te := wantOutcome(t, err, bullpen.Output)
	if te.Retryable {
		t.Error("a line that is too long will be too long again")
	}
	do(t, p, "", "after")
	// A task may have a smaller bound of its own; the worker lives on.
	before := workersOf(p)
	_, err = p.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte("12345"), Limits: bullpen.Limits{Output: 4}})
	_ = wantOutcome(t, err, bullpen.Output)
	if !slices.Equal(before, workersOf(p)) {
		t.Error("the worker was replaced")
	}
}

func TestLinesRefuseWhatIsMoreThanOneLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		nul     bool
		payload string
		good    bool
	}{{false, "a\nb", false}, {false, "a\x00b", true}, {true, "a\x00b", false}, {true, "a\nb", true}} {
		command := []string{"cat"}
		p := linesPool(t, func(k *Config) { k.NUL = c.nul }, command...)
		r, err := p.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte(c.payload)})
		switch {
		case c.good && (err != nil || string(r.Payload) != c.payload):
			t.Errorf("NUL %v: %q came back as %q, %v", c.nul, c.payload, r.Payload, err)
		case !c.good:
			wantNeverStarted(t, err, bullpen.ErrRefused)
			if !strings.Contains(err.Error(), "frames or exec") {
				t.Errorf("the error gives no advice: %v", err)
			}
		}
	}
}

// A line that no task asked for must not become the answer of the next task.
func TestSurplusLineEndsTheWorker(t *testing.T) {
	t.Parallel()
	p := linesPool(t, nil, self(), "zoo", "upper-lines")
	feed := p.Events(0)
	defer feed.Close()
	if got := do(t, p, "", "one"); got != "ONE" {
		t.Fatalf("the answer is %q", got)
	}
	if got := do(t, p, "", "twice"); got != "TWICE" {
		t.Fatalf("the answer is %q", got)
	}
	for e := range feed.C {
		if e.Kind != Died {
			continue
		}
		if e.Cause != ByProtocol || !errors.Is(e.Err, ErrExtraLine) || e.Text != `protocol: the worker wrote an extra line, which answers no task: "TWICE"` {
			t.Errorf("the worker's end is %+v", e)
		}
		break
	}
	if got := do(t, p, "", "three"); got != "THREE" {
		t.Errorf("the answer after a surplus line is %q", got)
	}
}

// What a dead filter has read is lost, what it has not read goes to another one.
func TestLinesOfADeadWorker(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "died")
	// Reads byte by byte, so what it has not taken stands in the pipe. It dies
	// once, with the third line.
	p := linesPool(t, func(c *Config) { c.Window = 16 }, "sh", "-c",
		`while read -r x; do if test "$x" = die && ! test -e "$0"; then : >"$0"; echo bye >&2; exit 5; fi; echo "$x"; done`, file)
	tasks := numbers(12)
	tasks[2].Payload = []byte("die")
	lost := 0
	for i, e := range p.ExecuteAll(within(t, time.Minute), tasks) {
		if e.Err == nil {
			if string(e.Result.Payload) != string(tasks[i].Payload) {
				t.Errorf("line %d came back as %q", i, e.Result.Payload)
			}
			continue
		}
		lost++
		te := wantOutcome(t, e.Err, bullpen.Lost)
		if i != 2 || te.ExitCode != 5 || te.Detail != "bye" {
			t.Errorf("task %d: %+v", i, te)
		}
	}
	if lost != 1 {
		t.Errorf("%d lines are lost, want the one that was read", lost)
	}
	if s := p.Stats(); s.Replayed == 0 {
		t.Error("nothing was replayed: the test shows nothing")
	}
}

func TestBufferingFilterIsRecognised(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{
		{"sed", "s/a/b/"}, {"tr", "a", "b"}, {"sh", "-c", `while read -r x; do test "$x" = never || echo "$x"; done`},
	} {
		if _, err := exec.LookPath(command[0]); err != nil {
			continue
		}
		p := linesPool(t, nil, command...)
		payload := "banana"
		if command[0] == "sh" {
			do(t, p, "", "warm")
			payload = "never"
			// The keeper must have nothing to do for long, so that the task has to
			// wake it: else it finds the silence only at the idle timeout.
			poll(t, "the keeper sleeps", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.wakeAt > p.now()+int64(4*silentFor)
			})
		}
		began := time.Now()
		_, err := p.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte(payload)})
		if !errors.Is(err, ErrUnanswered) || !strings.Contains(err.Error(), "sed -u") {
			t.Errorf("%s: the error is %v", command[0], err)
		}
		if d := time.Since(began); d < silentFor || d > 10*silentFor {
			t.Errorf("%s: it took %v", command[0], d)
		}
	}
}

// A worker that has answered is not taken for a silent one while the host, as on a busy
// machine, does not come to read the answer.
func TestAnswerThatIsReadLate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what a process waits for is read from /proc")
	}
	p := linesPool(t, nil, "sh", "-c", `while read -r x; do echo "$x"; done`)
	do(t, p, "", "warm")
	p.mu.Lock()
	w := p.workers[0]
	p.mu.Unlock()
	d := w.driver.(*linesDriver)
	d.reading.Lock() // nobody else reads
	a := submit(t, p, bullpen.Task{Payload: []byte("late")})
	poll(t, "the answer is there", func() bool {
		readable := false
		err := d.out.Control(func(fd uintptr) { readable = wire.Readable(fd) })
		return err == nil && readable && confine.WaitsForInput(w.pid)
	})
	looked := func() int64 {
		p.mu.Lock()
		defer p.mu.Unlock()
		return w.lookedAt
	}
	for range 2 {
		before := looked()
		poll(t, "the keeper looks", func() bool { return looked() != before })
	}
	d.reading.Unlock()
	if err := d.out.Control(func(fd uintptr) { d.try(fd) }); err != nil {
		t.Fatal(err)
	}
	if _, err := a.outcome(t); err != nil {
		t.Errorf("the answer was not taken: %v", err)
	}
	if s := p.Stats(); s.Deaths[BySilence] != 0 {
		t.Errorf("%d workers were killed for their silence", s.Deaths[BySilence])
	}
}

// A filter that is busy is not taken for one that buffers.
func TestSlowFilterIsNotSilent(t *testing.T) {
	t.Parallel()
	p := linesPool(t, nil, "sh", "-c", `while read -r x; do sleep 1.3; echo "$x"; done`)
	if got := do(t, p, "", "slow"); got != "slow" {
		t.Errorf("the answer is %q", got)
	}
}

// Lines that cannot be started give the same errors as frames.
func TestLinesThatEndAtOnce(t *testing.T) {
	t.Parallel()
	p := linesPool(t, nil, "sh", "-c", "echo usage: nonsense >&2; exit 2")
	_, err := p.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte("x")})
	if err == nil || !strings.Contains(fmt.Sprintf("%v %+v", err, detailOf(err)), "usage: nonsense") {
		t.Errorf("the error is %v with %q", err, detailOf(err))
	}
	_, err = p.Execute(within(t, time.Minute), bullpen.Task{Payload: []byte("x")})
	if err == nil {
		t.Error("a filter that is no filter gives results")
	}
}

func detailOf(err error) string {
	var te *bullpen.TaskError
	if errors.As(err, &te) {
		return te.Detail
	}
	return ""
}

// More is in flight than pipes hold, in both directions.
func TestLinesLargerThanPipes(t *testing.T) {
	t.Parallel()
	p := linesPool(t, func(c *Config) { c.Window = 64 }, "cat")
	long := strings.Repeat("y", 100<<10)
	for _, e := range p.ExecuteAll(within(t, 60*time.Second), batchOf(200, "", long)) {
		if e.Err != nil || string(e.Result.Payload) != long {
			t.Fatalf("line %d: %d bytes, %v", e.Index, len(e.Result.Payload), e.Err)
		}
	}
}

// Of more lines than a pipe holds, those that a filter had read before it exited are not
// given to the next one.
func TestLinesThatWereReadRunOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "read")
	p := linesPool(t, func(c *Config) { c.Max, c.Window, c.Env = 1, 4, []string{"FILE=" + file} },
		"sh", "-c", `n="1 2"; [ -e "$FILE" ] && n=1; for i in $n; do read -r x && echo "${x%%y*}" >>"$FILE"; done`)
	tasks := make([]bullpen.Task, 4)
	for i := range tasks {
		tasks[i].Payload = []byte(strconv.Itoa(i) + strings.Repeat("y", 40<<10))
	}
	for _, e := range p.ExecuteAll(within(t, time.Minute), tasks) {
		_ = wantOutcome(t, e.Err, bullpen.Lost)
	}
	read, err := os.ReadFile(file)
	if err != nil || string(read) != "0\n1\n2\n3\n" {
		t.Errorf("the filters have read %q, %v", read, err)
	}
}
