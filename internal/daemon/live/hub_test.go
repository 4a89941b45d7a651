package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/feed"
)

func newHub(t testing.TB, c Config) *Hub {
	t.Helper()
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// held is an executor whose tasks end when the test says so.
type held struct {
	bullpen.Executor

	mu    sync.Mutex
	tasks map[string]heldTask // guarded by mu
	fault error
}

type heldTask struct {
	bullpen.Task

	done func(bullpen.Result, error)
}

func (e *held) Submit(_ context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	if e.fault != nil {
		return e.fault
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tasks == nil {
		e.tasks = map[string]heldTask{}
	}
	e.tasks[t.ID] = heldTask{t, done}
	return nil
}

func (e *held) task(id string) heldTask {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tasks[id]
}

// start hands over a task as the queue does for an attempt.
func start(t *testing.T, x bullpen.Executor, id string, attempt int, o bullpen.Observer) {
	t.Helper()
	task := bullpen.Task{ID: id, Observer: o}
	if attempt > 1 {
		task.Meta = map[string]string{"bullpen.attempt": fmt.Sprint(attempt)}
	}
	if err := x.Submit(t.Context(), task, func(bullpen.Result, error) {}); err != nil {
		t.Fatal(err)
	}
}

// words gives events as text: position, kind and what they say.
func words(events []Event) string {
	var all []string
	for _, e := range events {
		switch e.Kind {
		case Began:
			all = append(all, e.Position.String()+" began")
		case Progressed:
			all = append(all, fmt.Sprintf("%v %g%s", e.Position, e.Fraction, e.Note))
		case Logged:
			all = append(all, fmt.Sprintf("%v %s", e.Position, e.Line.Text))
		case Ended:
			all = append(all, e.Position.String()+" ended")
		}
	}
	return strings.Join(all, ", ")
}

// rest reads a feed to its end.
func rest(f *Feed) (events []Event) {
	for e := range f.C {
		events = append(events, e)
	}
	return events
}

// there reads what a feed has now.
func there(f *Feed) (events []Event) {
	for len(f.C) > 0 {
		events = append(events, <-f.C)
	}
	return events
}

type counting struct{ progress, lines int }

func (c *counting) Progress(float64, string) { c.progress++ }
func (c *counting) Log(bullpen.LogLine)      { c.lines++ }

func TestFollow(t *testing.T) {
	t.Parallel()
	h, e, seen := newHub(t, Config{}), &held{}, &counting{}
	x := h.Wrap("thumbs", e)
	start(t, x, "a", 1, seen)
	if pool, ok := h.Where("a"); !ok || pool != "thumbs" {
		t.Errorf("Where = %q, %v", pool, ok)
	}
	early := h.Follow("a", Position{})
	task := e.task("a")
	task.Observer.Progress(0.5, "half")
	task.Observer.Log(bullpen.LogLine{Text: "hello"})
	if got, want := words(there(early)), "1.0 began, 1.1 0.5half, 1.2 hello"; got != want {
		t.Errorf("followed from the start: %s, want %s", got, want)
	}
	late := h.Follow("a", Position{1, 1})
	task.done(bullpen.Result{}, nil)
	if got, want := words(rest(late)), "1.2 hello, 1.3 ended"; got != want {
		t.Errorf("followed from 1.1: %s, want %s", got, want)
	}
	if got := words(rest(early)); got != "1.3 ended" {
		t.Errorf("the end: %s", got)
	}
	task.Observer.Log(bullpen.LogLine{Text: "after its end"})
	if got, want := words(rest(h.Follow("a", Position{}))), "1.0 began, 1.1 0.5half, 1.2 hello, 1.3 ended"; got != want {
		t.Errorf("followed after the end: %s, want %s", got, want)
	}
	if h.Follow("a", Position{1, 3}) != nil || h.Follow("b", Position{}) != nil {
		t.Error("a feed of which nothing is left to tell, or of nobody")
	}
	if _, ok := h.Where("a"); ok {
		t.Error("a task that has ended is said to run")
	}
	if *seen != (counting{1, 2}) {
		t.Errorf("the task's own observer saw %+v", *seen)
	}
	early.Close()
	late.Close()
	late.Close()
}

func TestFollowOverAttempts(t *testing.T) {
	t.Parallel()
	h, e := newHub(t, Config{}), &held{}
	x := h.Wrap("p", e)
	for n := 1; n <= attemptsKept+2; n++ {
		start(t, x, "a", n, nil)
		e.task("a").Observer.Log(bullpen.LogLine{Text: fmt.Sprint("try ", n)})
		e.task("a").done(bullpen.Result{}, errors.New("no"))
	}
	start(t, x, "a", 7, nil)
	f := h.Follow("a", Position{5, 1})
	if got, want := words(there(f)), "5.2 ended, 6.0 began, 6.1 try 6, 6.2 ended, 7.0 began"; got != want {
		t.Errorf("behind 5.1: %s, want %s", got, want)
	}
	f.Close()
	f = h.Follow("a", Position{})
	if got := words(there(f)); !strings.HasPrefix(got, "3.0 began") {
		t.Errorf("the oldest attempts are not forgotten: %s", got)
	}
	f.Close()
	e.task("a").done(bullpen.Result{}, nil)
}

func TestSilentTaskLeavesNothing(t *testing.T) {
	t.Parallel()
	h, e := newHub(t, Config{}), &held{}
	x := h.Wrap("p", e)
	start(t, x, "a", 1, nil)
	e.task("a").done(bullpen.Result{}, nil)
	if h.Follow("a", Position{}) != nil || len(h.kept) != 0 {
		t.Error("a task that said nothing is kept")
	}
	e.fault = bullpen.ErrClosed
	if err := x.Submit(t.Context(), bullpen.Task{ID: "b"}, func(bullpen.Result, error) {}); !errors.Is(err, bullpen.ErrClosed) {
		t.Errorf("Submit = %v", err)
	}
	if _, ok := h.Where("b"); ok {
		t.Error("a task that was refused is said to run")
	}
}

func TestForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, e := newHub(t, Config{Keep: 10 * time.Second}), &held{}
		x := h.Wrap("p", e)
		for _, id := range []string{"a", "b"} {
			start(t, x, id, 1, nil)
			e.task(id).Observer.Log(bullpen.LogLine{Text: "x"})
			e.task(id).done(bullpen.Result{}, nil)
			<-time.After(6 * time.Second)
		}
		synctest.Wait()
		if h.Follow("a", Position{}) != nil || h.Follow("b", Position{}) == nil {
			t.Error("after 12 s: a is there, or b is not")
		}
		<-time.After(6 * time.Second)
		synctest.Wait()
		if h.Follow("b", Position{}) != nil || h.used.Load() != 0 {
			t.Errorf("after 18 s: b is there, or %d bytes are", h.used.Load())
		}
	})
}

func TestBounds(t *testing.T) {
	t.Parallel()
	h, e := newHub(t, Config{Bytes: 20_000, TaskBytes: 5000, TaskEvents: 10}), &held{}
	x := h.Wrap("p", e)
	ids := make([]string, 50)
	for i := range ids {
		ids[i] = fmt.Sprint("task", i)
		start(t, x, ids[i], 1, nil)
	}
	for range 100 {
		for _, id := range ids {
			e.task(id).Observer.Log(bullpen.LogLine{Text: strings.Repeat("x", 100)})
		}
	}
	// Each keeps its last event at least.
	if most := h.config.Bytes + int64(len(ids)*(eventSize+100)); h.used.Load() > most {
		t.Errorf("%d bytes are kept, want %d at most", h.used.Load(), most)
	}
	for _, id := range ids {
		e.task(id).done(bullpen.Result{}, nil)
	}
	if h.used.Load() > h.config.Bytes {
		t.Errorf("after the end %d bytes are kept, want %d at most", h.used.Load(), h.config.Bytes)
	}
	start(t, x, "large", 1, nil)
	e.task("large").Observer.Log(bullpen.LogLine{Text: strings.Repeat("ä", longestText)})
	f := h.Follow("large", Position{1, 0})
	defer f.Close()
	if n := len((<-f.C).Line.Text); n > longestText || n%2 != 0 {
		t.Errorf("%d bytes of a line are kept", n)
	}
	for range 3 * feed.Depth {
		e.task("large").Observer.Progress(0.1, "")
	}
	if got := f.Dropped(); got == 0 || got > 3*feed.Depth {
		t.Errorf("a reader that does not read has lost %d events", got)
	}
	e.task("large").done(bullpen.Result{}, nil)
}

// TestFollowersAtOnce lets tasks speak, end and be followed from many sides.
func TestFollowersAtOnce(t *testing.T) {
	t.Parallel()
	h, e := newHub(t, Config{Bytes: 50_000, Keep: time.Millisecond}), &held{}
	x := h.Wrap("p", e)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 50 {
				id := fmt.Sprint(i, ".", n)
				start(t, x, id, 1, nil)
				f := h.Follow(id, Position{})
				got := make(chan []Event, 1)
				go func() { got <- rest(f) }() // ends with the feed; waited for below
				for k := range 20 {
					e.task(id).Observer.Log(bullpen.LogLine{Text: fmt.Sprint(k)})
				}
				e.task(id).done(bullpen.Result{}, nil)
				events := <-got
				if len(events) != 22 || !slices.IsSortedFunc(events, func(a, b Event) int { return int(a.Position.N) - int(b.Position.N) }) {
					t.Errorf("%s: %s", id, words(events))
				}
			}
		})
	}
	all.Wait()
}

func TestPosition(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1.0", "2.17", "0.0"} {
		if p, err := ParsePosition(text); err != nil || p.String() != text {
			t.Errorf("ParsePosition(%q) = %v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "1", "1.", ".1", "-1.0", "1.-1", "1.0.0", "99999999999.1", "a.b"} {
		if p, err := ParsePosition(text); err == nil {
			t.Errorf("ParsePosition(%q) = %v, want an error", text, p)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Bytes: -1, Keep: -1})
	if err == nil || !strings.Contains(err.Error(), "Bytes") || !strings.Contains(err.Error(), "Keep") {
		t.Errorf("New = %v, want both faults", err)
	}
}

func FuzzParsePosition(f *testing.F) {
	f.Add("1.12")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePosition(text)
		if err != nil {
			return
		}
		if again, err := ParsePosition(p.String()); err != nil || again != p {
			t.Errorf("%q is %v, which is %v, %v", text, p, again, err)
		}
	})
}

type instant struct{ bullpen.Executor }

func (instant) Submit(_ context.Context, _ bullpen.Task, done func(bullpen.Result, error)) error {
	done(bullpen.Result{}, nil)
	return nil
}

// BenchmarkSubmit is what tracking costs a task that says nothing.
func BenchmarkSubmit(b *testing.B) {
	x := newHub(b, Config{}).Wrap("p", instant{})
	ids := make([]string, 64)
	for i := range ids {
		ids[i] = fmt.Sprintf("01KACW4QN3F0D8RM5Z1TYXB%03d", i)
	}
	done := func(bullpen.Result, error) {}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := x.Submit(b.Context(), bullpen.Task{ID: ids[i%64]}, done); err != nil {
			b.Fatal(err)
		}
	}
}
