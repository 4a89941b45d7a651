package pool

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/feed"
)

// all reads a feed to its end.
func all(f *Feed) []Event {
	var events []Event
	for e := range f.C {
		events = append(events, e)
	}
	return events
}

func kinds(events []Event) map[EventKind]int {
	n := map[EventKind]int{}
	for _, e := range events {
		n[e.Kind]++
	}
	return n
}

func TestEventsTellALife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Name: "zoo", Min: 1, Max: 3, Queue: 8, Idle: time.Minute, Grace: time.Second, CloseGrace: time.Second})
		feed := p.Events(1000)
		slow := p.With(Options{Name: "slow", Timeout: time.Second})
		free := make(chan struct{})
		stuck, err := Submit(t.Context(), slow, func(context.Context) (int, error) {
			<-free
			return 0, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stuck.Wait(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the body that ignores its deadline: %v", err)
		}
		close(free)
		synctest.Wait()
		for range 2 { // one is dropped by Stop
			if err := p.Go(t.Context(), func() { panic("hot") }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		<-time.After(3*time.Minute + time.Second)
		hold := make(chan struct{})
		for range 3 + 2 {
			if err := p.Go(t.Context(), func() { <-hold }); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		go func() { // ends when the pool does, which Stop waits for
			<-time.After(time.Second)
			close(hold)
		}()
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		events := all(feed)
		n := kinds(events)
		for _, c := range []struct {
			kind EventKind
			want int
		}{{Panicked, 2}, {Overran, 1}, {Returned, 1}, {Dropped, 1}, {Changed, 2}, {KeptAlive, 3}, {Overloaded, 0}} {
			if n[c.kind] != c.want {
				t.Errorf("%d events %q, want %d", n[c.kind], c.kind, c.want)
			}
		}
		if n[Stopped] != n[Started]+1 || feed.Dropped() != 0 { // the first had started before the feed
			t.Errorf("%d workers started, %d stopped, %d events lost", n[Started]+1, n[Stopped], feed.Dropped())
		}
		checkDetails(t, events)
	})
}

// checkDetails checks what the events say besides their kind.
func checkDetails(t *testing.T, events []Event) {
	t.Helper()
	for _, e := range events {
		ok := !e.Time.IsZero()
		switch e.Kind {
		case Overran, Returned:
			ok = ok && e.Task == "slow" && e.Worker == "zoo-1"
		case Panicked:
			ok = ok && e.Task == "task" && e.Text == "panic: hot" && strings.Contains(e.Stack, "events_test.go")
		case Dropped:
			ok = ok && e.Count == 2 && e.Worker == ""
		case KeptAlive:
			ok = ok && e.Count == 1
		case Changed:
			ok = ok && (e.Text == "stopping" || e.Text == "closed")
		case Started, Stopped, Overloaded:
			ok = ok && (e.Worker != "" || e.Kind == Overloaded)
		}
		if !ok {
			t.Errorf("the event says %q: %+v", e, e)
		}
	}
	if last := events[len(events)-1]; last.Kind != Changed || last.Text != "closed" {
		t.Errorf("the last event is %q", last)
	}
}

// TestOverloadedIsSaidOnceASecond refuses many tasks in three seconds.
func TestOverloadedIsSaidOnceASecond(t *testing.T) {
	t.Parallel()
	for _, o := range []Overflow{Reject, DropOldest} {
		t.Run(o.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := open(t, Config{Max: 1, Queue: 1, Overflow: o})
				feed := p.Events(1000)
				free := make(chan struct{})
				at := p.With(Options{Name: "a"})
				for range 2 {
					if err := at.Go(t.Context(), func() { <-free }); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				for range 30 {
					if err := at.Go(t.Context(), func() {}); (o == Reject) != errors.Is(err, bullpen.ErrOverloaded) {
						t.Fatalf("the task in excess: %v", err)
					}
					<-time.After(100 * time.Millisecond)
				}
				close(free)
				synctest.Wait()
				feed.Close()
				if n := kinds(all(feed))[Overloaded]; n != 3 {
					t.Errorf("said %d times in three seconds", n)
				}
			})
		})
	}
}

func TestFeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, Config{Min: 1, Max: 1, Name: "p"})
		small, other := p.Events(1), p.Events(0)
		if cap(other.C) != feed.Depth {
			t.Errorf("a feed holds %d events where nothing was said", cap(other.C))
		}
		for range 3 {
			if err := p.Go(t.Context(), func() { panic(1) }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if small.Dropped() != 2 || other.Dropped() != 0 {
			t.Errorf("dropped %d and %d events, want 2 and 0", small.Dropped(), other.Dropped())
		}
		small.Close()
		small.Close()
		if n := len(all(small)); n != 1 {
			t.Errorf("the closed feed still has %d events, want 1", n)
		}
		p.Close()
		if n := kinds(all(other)); n[Panicked] != 3 || n[Stopped] != 1 {
			t.Errorf("the other feed has %v", n)
		}
		other.Close()
		if late := p.Events(5); len(all(late)) != 0 {
			t.Error("a feed of a closed pool has events")
		} else {
			late.Close()
		}
		if p.journal.Heard() {
			t.Error("a closed pool thinks that it is heard")
		}
	})
}

// TestNobodyListens shows what an event costs then.
func TestNobodyListens(t *testing.T) {
	var j journal
	if n := testing.AllocsPerRun(100, func() { j.emit(Event{Kind: Started, Worker: "w"}) }); n != 0 {
		t.Errorf("an event nobody hears allocates %v times", n)
	}
	f := j.Feed(1)
	f.Close()
	if j.Heard() {
		t.Error("it still thinks that somebody listens")
	}
}

// blocking is a log handler that waits at each line until it is released.
type blocking struct {
	slog.Handler
	free chan struct{}
}

func (b blocking) Handle(ctx context.Context, r slog.Record) error {
	<-b.free
	return b.Handler.Handle(ctx, r)
}

func (b blocking) WithAttrs(a []slog.Attr) slog.Handler {
	return blocking{b.Handler.WithAttrs(a), b.free}
}

// TestABlockedLoggerDelaysNobody has a logger that takes no line: tasks run, the
// lines in excess are counted, and the end of the pool waits for a second only.
func TestABlockedLoggerDelaysNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		free := make(chan struct{})
		logger := slog.New(blocking{slog.NewTextHandler(&text, nil), free})
		p := open(t, Config{Name: "p", Min: 1, Max: 1, Logger: logger})
		const excess = 100
		begin := time.Now()
		for range feed.LogDepth + excess {
			if err := p.Go(t.Context(), func() { panic("hot") }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("tasks were delayed by %v", took)
		}
		lost := p.Stats().LostLogLines // one is in the logger's hands, and one line is that of the start
		if lost < excess-1 || lost > excess+1 {
			t.Errorf("%d lines lost, want about %d", lost, excess)
		}
		for range 2 {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took != feed.LogPatience {
			t.Errorf("two calls of Close took %v, want %v", took, feed.LogPatience)
		}
		close(free)
		synctest.Wait()
		if n := strings.Count(text.String(), "event=panicked"); n < feed.LogDepth-1 || n > feed.LogDepth+1 {
			t.Errorf("%d lines were written after all, want about %d", n, feed.LogDepth)
		}
	})
}

// shouting is a log handler that panics at every other line.
type shouting struct {
	slog.Handler
	mu *sync.Mutex
	n  *int // guarded by mu
}

func (s shouting) WithAttrs(a []slog.Attr) slog.Handler {
	return shouting{s.Handler.WithAttrs(a), s.mu, s.n}
}

func (s shouting) Handle(ctx context.Context, r slog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.n++
	if *s.n%2 == 1 {
		panic("no")
	}
	return s.Handler.Handle(ctx, r)
}

func TestLogger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		handler := shouting{slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelInfo}), &sync.Mutex{}, new(int)}
		p := open(t, Config{Name: "p", Max: 1, Logger: slog.New(handler)})
		for range 10 {
			if err := p.Go(t.Context(), func() { panic("hot") }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := p.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		log := text.String() // whole: Drain has waited for it
		for _, want := range []string{"level=WARN", "msg=event", "event=panicked", "pool=p", "worker=p-1", "task=task", `text="panic: hot"`, "stack="} {
			if !strings.Contains(log, want) {
				t.Errorf("the log does not say %s:\n%s", want, log)
			}
		}
		if strings.Contains(log, "level=DEBUG") {
			t.Errorf("the log says what its level hides:\n%s", log)
		}
		if got := p.Stats().LostLogLines; got != 6 { // of ten panics and two changes
			t.Errorf("%d lines lost by panics of the handler, want 6", got)
		}
	})
}

func TestEventWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for k := Started; k <= Changed; k++ {
		if seen[k.String()] || strings.Contains(k.String(), "(") {
			t.Errorf("event %d is called %q", k, k)
		}
		seen[k.String()] = true
	}
	for e, want := range map[*Event]string{
		{}:                          "event(0)",
		{Kind: 99}:                  "event(99)",
		{Kind: KeptAlive, Count: 3}: "kept alive 3",
		{Kind: Panicked, Worker: "p-1", Task: "a", Text: "panic: x"}: `p-1 panicked task "a": panic: x`,
	} {
		if got := e.String(); got != want {
			t.Errorf("%+v reads %q, want %q", *e, got, want)
		}
	}
}
