package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"
)

// open makes a log and closes it at the end of the test.
func open(t *testing.T, c Config) *Log {
	t.Helper()
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, l) })
	return l
}

func finish(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestHandlersOfTheStandard(t *testing.T) {
	t.Parallel()
	var text *bytes.Buffer
	var l *Log
	begin := func(t *testing.T) slog.Handler {
		t.Helper()
		text = &bytes.Buffer{}
		l = open(t, Config{Writer: text, JSON: true})
		return l.Handler()
	}
	written := func(t *testing.T) map[string]any {
		t.Helper()
		finish(t, l)
		var got map[string]any
		if err := json.Unmarshal(text.Bytes(), &got); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		return got
	}
	slogtest.Run(t, begin, written)
}

// gate is a writer that stands still until it is opened.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
	text bytes.Buffer // guarded by mu
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(p)
}

func (g *gate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

func TestASlowWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := open(t, Config{Writer: g, Buffer: 16})
		logger := slog.New(l.Handler())
		logger.Info("held by the writer")
		synctest.Wait()
		for i := range 100 { // 12 find room
			logger.Info("flood", "i", i)
		}
		for i := range 10 { // 4 find room
			logger.Error("fault", "i", i)
		}
		if n := l.Dropped(); n != 100-12+10-4 {
			t.Errorf("%d records were dropped, want 94", n)
		}
		close(g.open)
		synctest.Wait()
		logger.Info("after")
		synctest.Wait()
		got := g.String()
		if n := strings.Count(got, "flood"); n != 12 {
			t.Errorf("%d lines of the flood were written, want 12", n)
		}
		if n := strings.Count(got, "fault"); n != 4 {
			t.Errorf("%d faults were written, want 4", n)
		}
		if !strings.Contains(got, "dropped") || !strings.Contains(got, "count=94") || strings.Count(got, "dropped") != 1 {
			t.Errorf("no single line tells that 94 were dropped:\n%s", got)
		}
		if !strings.Contains(got, "msg=after") {
			t.Error("what came after was not written")
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := open(t, Config{Writer: g})
		slog.New(l.Handler()).Info("one")
		synctest.Wait()
		slog.New(l.Handler()).Info("two")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "1 lines") {
			t.Errorf("Close says %v, want that a line is left and the time is over", err)
		}
		close(g.open)
		finish(t, l)
		if got := g.String(); !strings.Contains(got, "two") {
			t.Errorf("the second line is missing: %s", got)
		}
		slog.New(l.Handler()).Info("late")
		if n := l.Dropped(); n != 1 {
			t.Errorf("%d are counted as dropped after Close, want 1", n)
		}
	})
}

// faulty fails or panics with every second write.
type faulty struct {
	writes int
	panics bool
	text   bytes.Buffer
}

func (f *faulty) Write(p []byte) (int, error) {
	f.writes++
	if f.writes%2 == 1 {
		if f.panics {
			panic("the writer is broken")
		}
		return 0, errors.New("the disk is full")
	}
	return f.text.Write(p)
}

func TestAFaultyWriter(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		t.Run(fmt.Sprintf("panics=%v", panics), func(t *testing.T) {
			t.Parallel()
			f := &faulty{panics: panics}
			l := open(t, Config{Writer: f})
			slog.New(l.Handler()).Info("one")
			finish(t, l)
			if n := l.Dropped(); n != 1 {
				t.Errorf("%d are counted as dropped, want 1", n)
			}
			if got := f.text.String(); !strings.Contains(got, "count=1") {
				t.Errorf("the loss is not logged: %q", got)
			}
		})
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	l := open(t, Config{Writer: &text, Level: slog.LevelWarn})
	logger := slog.New(l.Handler()).With("a", 1).WithGroup("g")
	logger.Info("no")
	l.SetLevel(slog.LevelDebug)
	if l.Level() != slog.LevelDebug {
		t.Errorf("the level is %v", l.Level())
	}
	logger.Debug("yes", "b", 2)
	finish(t, l)
	if got := text.String(); strings.Contains(got, "no") || !strings.Contains(got, "msg=yes a=1 g.b=2") {
		t.Errorf("written is %q", got)
	}
}

// changing is a value that differs each time it is looked at, or panics.
type changing struct{ n *int }

func (c changing) String() string { *c.n++; return fmt.Sprint("changing ", *c.n) }

type panicking struct{}

func (panicking) LogValue() slog.Value { panic("no value") }

type panickingText struct{}

func (panickingText) MarshalText() ([]byte, error) { panic("no text") }

type panickingError struct{}

func (panickingError) Error() string { panic("no error") }

// TestValuesAreTakenDownAtOnce changes them while the writer stands.
func TestValuesAreTakenDownAtOnce(t *testing.T) {
	t.Parallel()
	for _, asJSON := range []bool{false, true} {
		g := newGate()
		l := open(t, Config{Writer: g, JSON: asJSON})
		n, list, bytes := 0, []string{"first"}, []byte("bytes")
		slog.New(l.Handler()).With("with", list).Info("m", "list", list, "text", changing{&n}, "bytes", bytes,
			slog.Group("group", "list", list), "error", errors.New("went wrong"), "nil", nil,
			"p1", panicking{}, "p2", panickingText{}, "p3", panickingError{}, "f", func() {}, "more", 1)
		list[0], bytes[0] = "second", 'B'
		close(g.open)
		finish(t, l)
		got := g.String()
		if strings.Contains(got, "second") || strings.Contains(got, "Bytes") || strings.Count(got, "first") != 3 {
			t.Errorf("JSON %v: values are not those of the call: %s", asJSON, got)
		}
		if !strings.Contains(got, "went wrong") || !strings.Contains(got, "PANIC: no error") || strings.Count(got, "\n") != 1 {
			t.Errorf("JSON %v: %s", asJSON, got)
		}
		if asJSON {
			var object map[string]any
			if err := json.Unmarshal([]byte(got), &object); err != nil {
				t.Errorf("%v in %s", err, got)
			}
			if _, ok := object["list"].([]any); !ok {
				t.Errorf("a list is %T in JSON", object["list"])
			}
		}
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	const secret = "x9ZsecretQ7"
	address := &url.URL{Scheme: "nats", User: url.UserPassword("me", secret), Host: "host:4222"}
	for name, log := range map[string]func(*slog.Logger){
		"key":       func(l *slog.Logger) { l.Info("m", "token", secret) },
		"capitals":  func(l *slog.Logger) { l.Info("m", "Authorization", "Bearer "+secret) },
		"last word": func(l *slog.Logger) { l.Info("m", "api_token", secret) },
		"camel":     func(l *slog.Logger) { l.Info("m", "dbPassword", secret) },
		"with":      func(l *slog.Logger) { l.With("password", secret).Info("m") },
		"group":     func(l *slog.Logger) { l.WithGroup("credentials").Info("m", "value", secret) },
		"inner group": func(l *slog.Logger) {
			l.Info("m", slog.Group("secret", "a", slog.GroupValue(slog.String("b", secret))))
		},
		"header":  func(l *slog.Logger) { l.Info("m", "h", http.Header{"Authorization": {"Basic " + secret}}) },
		"map":     func(l *slog.Logger) { l.Info("m", "env", map[string]string{"MY_SECRET": secret}) },
		"bearer":  func(l *slog.Logger) { l.Info("m", "line", "sent Authorization: Bearer "+secret+" to it") },
		"basic":   func(l *slog.Logger) { l.Info("m", "line", "sent Authorization: Basic "+secret+" to it") },
		"value":   func(l *slog.Logger) { l.Info("m", "header", "Basic "+secret) },
		"message": func(l *slog.Logger) { l.Info("got bearer " + secret) },
		"address": func(l *slog.Logger) { l.Info("m", "url", "nats://me:"+secret+"@host:4222,nats://"+secret+"@other") },
		"URL":     func(l *slog.Logger) { l.Info("m", "url", address) },
		"error":   func(l *slog.Logger) { l.Info("m", "error", fmt.Errorf("cannot reach %s", address)) },
		"number":  func(l *slog.Logger) { l.Info("m", "token", 8753186420975318642) },
	} {
		for _, asJSON := range []bool{false, true} {
			var text bytes.Buffer
			l := open(t, Config{Writer: &text, JSON: asJSON})
			log(slog.New(l.Handler()))
			finish(t, l)
			if got := text.String(); strings.Contains(got, secret) || strings.Contains(got, "8753186420975318642") || got == "" {
				t.Errorf("%s, JSON %v: %s", name, asJSON, got)
			}
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for asJSON, want := range map[bool]string{true: `"took":1.5}`, false: "took=1.5s\n"} {
		var text bytes.Buffer
		l := open(t, Config{Writer: &text, JSON: asJSON})
		slog.New(l.Handler()).Info("m", "took", 1500*time.Millisecond)
		finish(t, l)
		if got := text.String(); !strings.Contains(got, want) {
			t.Errorf("JSON %v: %s, want %s", asJSON, got, want)
		}
	}
}

func TestWhatIsNoSecret(t *testing.T) {
	t.Parallel()
	for _, a := range []slog.Attr{
		slog.String("tokens", "/etc/bullpen/tokens"), slog.String("secretary", "Ann"), slog.String("key", "order-7"),
		slog.String("text", "the basic idea"), slog.String("url", "https://host/a@b"), slog.String("mail", "me@host"),
		slog.String("text", "forbearer of"), slog.String("listen", "nats://host:4222"), slog.Int("count", 3),
	} {
		if got := blank(nil, a); !got.Equal(a) {
			t.Errorf("%v became %v", a, got)
		}
	}
}

func TestNewTellsAllFaults(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Buffer: 3})
	if err == nil || !strings.Contains(err.Error(), "Writer is nil") || !strings.Contains(err.Error(), "Buffer is 3") {
		t.Errorf("New says %v, want both faults", err)
	}
}

// TestManyAtOnce counts: each record is written or dropped, none twice, and those
// of one goroutine in their order.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 2000
	var text bytes.Buffer
	l := open(t, Config{Writer: &text, JSON: true, Buffer: 64})
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			logger := slog.New(l.Handler()).With("w", w)
			for i := range each {
				logger.Info("m", "i", i, "a", 1, "b", 2, "c", 3, "d", 4, "e", 5)
			}
		})
	}
	all.Wait()
	finish(t, l)
	last := map[int]int{}
	written := 0
	for line := range strings.Lines(text.String()) {
		var got struct {
			Msg  string
			W, I int
		}
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if got.Msg != "m" {
			continue // tells of dropped ones
		}
		written++
		if before, ok := last[got.W]; ok && got.I <= before {
			t.Fatalf("writer %d: %d came after %d", got.W, got.I, before)
		}
		last[got.W] = got.I
	}
	if dropped := int(l.Dropped()); written+dropped != writers*each {
		t.Errorf("%d were written and %d dropped, of %d", written, dropped, writers*each)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("Authorization: Bearer abc nats://a:b@c/d")
	f.Fuzz(func(t *testing.T, text string) {
		once := clean(text)
		if strings.Count(once, " ") != strings.Count(text, " ") {
			t.Errorf("%q became %q", text, once)
		}
		_ = blank([]string{text}, slog.String(text, text))
	})
}

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                              "",
		"plain\ntext\n":                 "plain\ntext\n",
		"no way to\nnats://a:b@c:4222/": "no way to\nnats://a:[hidden]@c:4222/",
		"Authorization: Bearer abc\nx":  "Authorization: Bearer [hidden]\nx",
	} {
		if got := Clean(text); got != want {
			t.Errorf("Clean(%q) = %q, want %q", text, got, want)
		}
	}
}
