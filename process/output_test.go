//go:build unix

package process

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
)

// What a task prints is no answer, and says whose it is.
func TestPrintsBecomeRecords(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := selfPool(t, func(c *Config) { c.Max, c.Logger = 2, j.logger() })
	for i := range 20 {
		text := fmt.Sprintf("text %d\r", i)
		r, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "print", ID: fmt.Sprint("id-", i), Payload: []byte(text)})
		if err != nil || string(r.Payload) != text {
			t.Fatalf("task %d: %q, %v", i, r.Payload, err)
		}
	}
	poll(t, "all lines are there", func() bool { return len(j.lines()) >= 40 })
	seen := map[string]entry{}
	for _, e := range j.lines() {
		seen[e.attrs["stream"]+" "+e.attrs["text"]] = e
	}
	for i := range 20 {
		for _, want := range []struct {
			key   string
			level slog.Level
		}{{fmt.Sprintf("stdout text %d", i), slog.LevelInfo}, {fmt.Sprintf("stderr warning: text %d", i), slog.LevelWarn}} {
			e, ok := seen[want.key]
			if !ok || e.level != want.level || !strings.HasPrefix(e.attrs["worker"], p.Config().Name+"-") {
				t.Fatalf("%s: %+v", want.key, e)
			}
		}
	}
	// A line that is read after its task has ended cannot be distinguished from one that
	// was printed between tasks: this task ends after its line was read.
	a := submit(t, p, bullpen.Task{Name: "printblock", ID: "last", Payload: []byte("text last")})
	named := func(e entry) bool {
		return e.attrs["text"] == "text last" && e.attrs["task"] == "printblock" && e.attrs["id"] == "last"
	}
	poll(t, "a line names its task", func() bool { return slices.ContainsFunc(j.lines(), named) })
	a.cancel(errWhy)
	_, err := a.outcome(t)
	_ = wantOutcome(t, err, bullpen.Canceled)
}

// A line printed while its task runs names it.
func TestPrintNamesTheRunningTask(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := execPool(t, func(c *Config) { c.Logger = j.logger() }, "sh", "-c", "echo chatter >&2; echo result")
	r, err := p.Execute(within(t, time.Minute), bullpen.Task{ID: "id-7", Name: "talker"})
	if err != nil || string(r.Payload) != "result\n" {
		t.Fatalf("%q, %v", r.Payload, err)
	}
	poll(t, "the line is there", func() bool { return len(j.lines()) == 1 })
	e := j.lines()[0]
	if e.attrs["text"] != "chatter" || e.attrs["id"] != "id-7" || e.attrs["task"] != "talker" || e.attrs["stream"] != "stderr" {
		t.Errorf("the record is %+v", e)
	}
}

// Any amount of chatter neither stops the worker nor grows the host. It is not
// parallel: the memory of this process is also that of the tests beside it.
func TestEndlessChatter(t *testing.T) {
	j := newJournal()
	release := make(chan struct{})
	var once sync.Once
	j.slow = func() { once.Do(func() { <-release }) } // a logger that hangs
	p := selfPool(t, func(c *Config) { c.Logger = j.logger() })
	defer close(release)
	lines := "100000"
	if long() {
		lines = "1000000"
	}
	before := resident(t)
	began := time.Now()
	if got := do(t, p, "chatter", lines); got != "said" {
		t.Errorf("the answer is %q", got)
	}
	do(t, p, "echo", "after")
	if d := time.Since(began); d > 25*time.Second {
		t.Errorf("it took %v", d)
	}
	if grown := resident(t) - before; grown > 128<<20 {
		t.Errorf("the host grew by %d MiB", grown>>20)
	}
	if p.Stats().LostLogLines == 0 {
		t.Error("lines were dropped and not counted")
	}
}

// resident is the memory of this process, in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// Many tasks that print do not wait for the logger either.
func TestSlowLogger(t *testing.T) {
	t.Parallel()
	j := newJournal()
	release := make(chan struct{})
	j.slow = func() { <-release }
	p := selfPool(t, func(c *Config) { c.Logger = j.logger() })
	defer close(release)
	for range 200 {
		do(t, p, "print", "x")
	}
}

// What a worker prints without end of line, in pieces, too long or not as text.
func TestOddLines(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := execPool(t, func(c *Config) { c.Logger = j.logger() }, "sh", "-c",
		`printf 'half ' >&2; sleep 0.05; printf 'line\n\n' >&2; printf '\377\n' >&2; head -c 20000 /dev/zero | tr '\0' x >&2; printf '\nlast' >&2`)
	do(t, p, "", "")
	poll(t, "all lines are there", func() bool { return len(j.lines()) == 5 })
	var lines []string
	for _, e := range j.lines() {
		lines = append(lines, e.attrs["text"])
	}
	if lines[0] != "half line" || lines[1] != "" || lines[2] != "\uFFFD" || lines[4] != "last" {
		t.Errorf("the lines are %.40q", lines)
	}
	if n := len(lines[3]); n < 4<<10 || n > 16<<10 {
		t.Errorf("a line of 20000 bytes was kept with %d", n)
	}
}

// notes is an observer that keeps what it hears.
type notes struct {
	mu       sync.Mutex
	progress []float64 // guarded by mu
	lines    []bullpen.LogLine
	texts    []string
}

func (n *notes) Progress(fraction float64, note string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.progress, n.texts = append(n.progress, fraction), append(n.texts, note)
}

func (n *notes) Log(line bullpen.LogLine) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, line)
}

// all returns the lines.
func (n *notes) all() []bullpen.LogLine {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.lines)
}

// String says what came.
func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprint(n.progress, n.texts, n.lines)
}

// heard reports whether progress and log of a task have come, in order.
func (n *notes) heard() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.progress) == 2 && n.progress[0] == 0.25 && n.progress[1] == 1 && n.texts[0] == "a quarter" &&
		len(n.lines) == 1 && n.lines[0].Stream == "log" && n.lines[0].Level == int(slog.LevelWarn) && strings.Contains(n.lines[0].Text, "careful")
}

func TestObserverHearsItsTask(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := selfPool(t, func(c *Config) { c.Max, c.Logger = 2, j.logger() })
	observers := make([]notes, 10)
	tasks := make([]bullpen.Task, len(observers))
	for i := range tasks {
		tasks[i] = bullpen.Task{Name: "report", ID: fmt.Sprint("id-", i), Payload: fmt.Append(nil, i), Observer: &observers[i]}
	}
	doAll(t, p, tasks)
	for i := range observers {
		poll(t, "each observer hears its own task", observers[i].heard)
	}
	for _, e := range j.lines() {
		if e.attrs["task"] != "report" || !strings.HasPrefix(e.attrs["id"], "id-") {
			t.Errorf("a line of a running task names %q %q", e.attrs["task"], e.attrs["id"])
		}
	}
}

// Whoever gets the outcome has received all that the task said: else the last lines of
// short tasks would be in nobody's records.
func TestObserverHearsItsTaskBeforeTheOutcome(t *testing.T) {
	t.Parallel()
	p := selfPool(t, func(c *Config) { c.Max = 2 })
	for range 200 {
		o, began := &notes{}, time.Now()
		if _, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "report", Observer: o}); err != nil {
			t.Fatal(err)
		}
		if !o.heard() && time.Since(began) < lastWords { // the outcome waits for so long
			t.Fatalf("at the outcome the observer has not heard all: %s", o)
		}
	}
}

// deaf is an observer that hears one line and never returns until it is let go.
type deaf struct{ let chan struct{} }

func (d deaf) Progress(float64, string) { <-d.let }
func (d deaf) Log(bullpen.LogLine)      { <-d.let }

func TestDeafObserverHoldsNoOutcomeUp(t *testing.T) {
	t.Parallel()
	p := selfPool(t, nil)
	do(t, p, "echo", "warm")
	d := deaf{make(chan struct{})}
	defer close(d.let)
	soon(t, "the outcome comes", 20*lastWords, func() time.Duration {
		began := time.Now()
		if _, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "report", Observer: d}); err != nil {
			t.Error(err)
		}
		return time.Since(began)
	})
	do(t, p, "echo", "after")
}

// panicky is an observer with a fault of its own.
type panicky struct{}

func (panicky) Progress(float64, string) { panic("in the observer") }
func (panicky) Log(bullpen.LogLine)      { panic("in the observer") }

func TestPanicsOfTheCallersCodeAreContained(t *testing.T) {
	t.Parallel()
	j := newJournal()
	p := selfPool(t, func(c *Config) { c.Logger = j.logger() })
	if _, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "report", Observer: panicky{}}); err != nil {
		t.Error(err)
	}
	err := p.Submit(t.Context(), bullpen.Task{Name: "echo"}, func(bullpen.Result, error) { panic("in done") })
	if err != nil {
		t.Fatal(err)
	}
	poll(t, "both are in the log", func() bool {
		observer, done := false, false
		for _, e := range j.all() {
			observer = observer || strings.Contains(e.attrs["panic"], "in the observer")
			done = done || strings.Contains(e.attrs["error"], "in done")
		}
		return observer && done
	})
	do(t, p, "echo", "after")
}

func TestTailIsBounded(t *testing.T) {
	t.Parallel()
	tail := newTail()
	for i := range 10_000 {
		tail.add(fmt.Sprintf("line %d", i))
	}
	if text := tail.text(); strings.Count(text, "\n") != tailLines-1 || !strings.HasSuffix(text, "line 9999") || tail.last() != "line 9999" {
		t.Errorf("the tail is %q", text)
	}
	tail.add(strings.Repeat("x", 1<<20))
	if n := len(tail.text()); n != tailBytes {
		t.Errorf("the tail has %d bytes, its bound is %d", n, tailBytes)
	}
	if newTail().last() != "" {
		t.Error("an empty tail has a last line")
	}
}
