//go:build unix

package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/executortest"
)

// serveWeb is a web server that listens at PORT.
func serveWeb(args []string) {
	if err := http.ListenAndServe(net.JoinHostPort("127.0.0.1", os.Getenv("PORT")), webHandler(args)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func webHandler(args []string) http.Handler {
	if len(args) == 0 {
		return http.HandlerFunc(suiteWeb)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/list", sharedWeb)
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		if after := r.Header.Get("Bullpen-Meta-After"); after != "" {
			w.Header().Set("Retry-After", after)
		}
		w.Header().Set("Ce-Id", "7")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		fmt.Fprintln(w, "what the server says")
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, r *http.Request) {
		for _, name := range sortedKeys(r.Header) {
			fmt.Fprintf(w, "%s: %s\n", name, strings.Join(r.Header[name], ", "))
		}
	})
	mux.HandleFunc("/print", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		fmt.Println(string(text))
	})
	mux.HandleFunc("/print-for-ever", func(http.ResponseWriter, *http.Request) { go printForEver() })
	mux.HandleFunc("/busy-once", busyOnce())
	mux.HandleFunc("/hang-up", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	})
	mux.HandleFunc("/pid", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getpid()) })
	mux.HandleFunc("/sleep", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		step, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, "first")
		_ = http.NewResponseController(w).Flush()
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		for _, err := os.Stat(string(step)); err != nil; _, err = os.Stat(string(step)) {
			<-look.C
		}
		fmt.Fprint(w, "second")
	})
	mux.HandleFunc("/flood", func(w http.ResponseWriter, _ *http.Request) {
		for range 100 {
			fmt.Fprint(w, "0123456789")
			_ = http.NewResponseController(w).Flush()
		}
	})
	mux.HandleFunc("/stream-and-hang-up", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "0123456789")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 2000)) })
	return mux
}

// printForEver ends with the process.
func printForEver() {
	line := strings.Repeat("x", 1000)
	for {
		fmt.Println(line)
	}
}

// busyOnce answers 503 to the first request.
func busyOnce() http.HandlerFunc {
	var once sync.Once
	return func(w http.ResponseWriter, _ *http.Request) {
		busy := false
		once.Do(func() { busy = true })
		if busy {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "now")
	}
}

func sortedKeys(h http.Header) []string {
	var all []string
	for name := range h {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// suiteWeb serves the contract's suite.
func suiteWeb(w http.ResponseWriter, r *http.Request) {
	event, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	ctx := r.Context()
	if ms, err := strconv.ParseInt(r.Header.Get("Bullpen-Deadline-Ms"), 10, 64); err == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, time.UnixMilli(ms))
		defer cancel()
	}
	h := handleEnveloped(ctx, event)
	switch h.kind {
	case "":
		_, _ = w.Write(h.text)
	case envelopedFinal:
		http.Error(w, h.message, http.StatusUnprocessableEntity)
	case envelopedUnknown:
		http.Error(w, h.message, http.StatusNotFound)
	case envelopedPanic:
		http.Error(w, h.message, http.StatusNotImplemented)
	default:
		http.Error(w, h.message, http.StatusInternalServerError)
	}
}

// types are the types that errors of suiteWeb stand for.
var types = map[string]string{"HTTP 422": envelopedFinal, "HTTP 404": envelopedUnknown, "HTTP 501": envelopedPanic}

// typed gives the errors of suiteWeb their types.
type typed struct{ bullpen.Executor }

func (e typed) Submit(ctx context.Context, t bullpen.Task, done func(bullpen.Result, error)) error {
	return e.Executor.Submit(ctx, t, func(r bullpen.Result, err error) {
		var te *bullpen.TaskError
		if errors.As(err, &te) && types[te.Type] != "" {
			te.Type = types[te.Type]
		}
		done(r, err)
	})
}

// Room is [bullpen.RoomNotifier].
func (e typed) Room() <-chan struct{} { return e.Executor.(bullpen.RoomNotifier).Room() }

func TestContractOfHTTP(t *testing.T) {
	executortest.Run(t, executortest.Factory{Unasked: true, New: func(t *testing.T, o executortest.Options) bullpen.Executor {
		t.Helper()
		return enveloped{typed{open(t, Config{
			Command: []string{self(), "web"}, Protocol: HTTP, Min: o.Workers, Max: o.Workers, Queue: o.Queue,
			Overflow: Overflow(o.Overflow), Grace: o.Grace,
		})}}
	}, KillWorker: killOne})
}

func webPool(t *testing.T, change func(*Config)) *Pool {
	t.Helper()
	c := Config{Command: []string{self(), "web", "paths"}, Protocol: HTTP, Max: 1, HTTP: HTTPWorker{Path: "/{name}"}}
	if change != nil {
		change(&c)
	}
	return open(t, c)
}

func TestHTTPStatus(t *testing.T) {
	t.Parallel()
	p := webPool(t, func(c *Config) { c.HTTP.Path = "/status/{name}" })
	for code, want := range map[int]string{
		200: "ok", 201: "ok", 301: "HTTP 301 true", 400: "HTTP 400 false", 404: "HTTP 404 false", 422: "HTTP 422 false", 500: "HTTP 500 true", 502: "HTTP 502 true",
	} {
		r, err := p.Execute(t.Context(), bullpen.Task{Name: strconv.Itoa(code)})
		var te *bullpen.TaskError
		switch {
		case err == nil && want == "ok":
			if string(r.Payload) != "what the server says\n" || r.Meta["ce-id"] != "7" || r.Meta["content-type"] != "text/plain; charset=utf-8" || len(r.Meta) != 2 {
				t.Errorf("%d: %q %v", code, r.Payload, r.Meta)
			}
		case !errors.As(err, &te) || te.Outcome != bullpen.Failed || fmt.Sprint(te.Type, " ", te.Retryable) != want ||
			!strings.Contains(te.Message, "what the server says"):
			t.Errorf("%d: %v %+v, want %s", code, err, te, want)
		}
	}
}

// TestHTTPBusy: a task that the server refuses for now runs later, and a server that refuses
// everything gets no more than its Retry-After allows.
func TestHTTPBusy(t *testing.T) {
	t.Parallel()
	p := webPool(t, nil)
	if got := do(t, p, "busy-once", ""); got != "now" {
		t.Error(got)
	}
	if s := p.Stats(); s.Replayed != 1 {
		t.Errorf("it was given to a worker again %d times", s.Replayed)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	p = webPool(t, func(c *Config) { c.HTTP.Path = "/status/429" })
	_, err := p.Execute(ctx, bullpen.Task{Meta: map[string]string{"after": "3600"}})
	if _, started := bullpen.OutcomeOf(err); started || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestHTTPHeaders(t *testing.T) {
	t.Parallel()
	p := webPool(t, func(c *Config) { c.HTTP.Path = "/headers" })
	got := do(t, p, "n", "x")
	if !strings.Contains(got, "Content-Type: application/octet-stream\n") || strings.Contains(got, "User-Agent") || strings.Contains(got, "Deadline") {
		t.Error(got)
	}
	r, err := p.Execute(t.Context(), bullpen.Task{
		ID: "id-1", Name: "thumb nail", Limits: bullpen.Limits{Timeout: time.Minute},
		Meta: map[string]string{
			"content-type": "application/cloudevents+json", "traceparent": "00-1-2-01", "ce-Type": "order", "user": "me",
			"bad key": "x", "line": "a\nb",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var rest []string
	for line := range strings.Lines(string(r.Payload)) {
		name, _, _ := strings.Cut(line, ":")
		if !slices.Contains([]string{"Accept-Encoding", "Content-Length", "Bullpen-Deadline-Ms"}, name) {
			rest = append(rest, line)
		}
	}
	want := "Bullpen-Meta-User: me\nBullpen-Task-Id: id-1\nBullpen-Task-Name: thumb nail\nCe-Type: order\nContent-Type: application/cloudevents+json\nTraceparent: 00-1-2-01\n"
	if got := strings.Join(rest, ""); got != want || !strings.Contains(string(r.Payload), "Bullpen-Deadline-Ms: 17") {
		t.Errorf("%s\nwant\n%s", r.Payload, want)
	}
}

// TestHTTPConcurrent: a worker runs several tasks at a time. One that must end is answered
// while the others go on, and the worker is replaced, as nothing shows that it has ended.
func TestHTTPConcurrent(t *testing.T) {
	t.Parallel()
	p := webPool(t, func(c *Config) { c.Concurrency = 3 })
	before := do(t, p, "pid", "")
	all := []*asked{submit(t, p, bullpen.Task{Name: "sleep"}), submit(t, p, bullpen.Task{Name: "sleep"})}
	if pid := do(t, p, "pid", ""); pid != before {
		t.Errorf("another worker: %s, before %s", pid, before)
	}
	all[0].cancel(errWhy)
	if _, err := all[0].outcome(t); !errors.Is(err, errWhy) {
		t.Error(err)
	}
	all[1].cancel(errWhy)
	if _, err := all[1].outcome(t); !errors.Is(err, errWhy) {
		t.Error(err)
	}
	poll(t, "the worker is replaced", func() bool { return do(t, p, "pid", "") != before })
}

func TestHTTPOutput(t *testing.T) {
	t.Parallel()
	p := webPool(t, nil)
	for i := range 20 {
		seen := &notes{}
		if _, err := p.Execute(t.Context(), bullpen.Task{Name: "print", Payload: []byte(strconv.Itoa(i)), Observer: seen}); err != nil {
			t.Fatal(err)
		}
		if got := seen.all(); len(got) != 1 || got[0].Text != strconv.Itoa(i) {
			t.Fatalf("task %d: %v", i, got)
		}
	}
}

func TestHTTPStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Command: []string{"sh", "-c", "echo no port >&2; exit 4"}}, "no port"},
		{Config{Command: []string{"sleep", "60"}, StartTimeout: 50 * time.Millisecond}, "did not become ready"},
		{Config{Command: []string{self(), "web", "paths"}, HTTP: HTTPWorker{Ready: "/status/404"}, StartTimeout: time.Second}, "did not become ready"},
	} {
		c.config.Protocol, c.config.Max = HTTP, 1
		p := open(t, c.config)
		_, err := p.Execute(t.Context(), bullpen.Task{})
		if !errors.Is(err, bullpen.ErrStart) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.config.Command, err)
		}
	}
	p := webPool(t, func(c *Config) { c.HTTP.Ready = "/status/204" })
	do(t, p, "pid", "")
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": defaultRetryAfter, "x": defaultRetryAfter, "-1": defaultRetryAfter, "2": 2 * time.Second, "0": time.Millisecond,
		"Mon, 23 Nov 2026 12:00:05 GMT": 5 * time.Second, "Mon, 23 Nov 2026 11:00:00 GMT": time.Millisecond, "99999999": mostRetryAfter,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

// TestHTTPFlood: a worker that prints without end still answers.
func TestHTTPFlood(t *testing.T) {
	t.Parallel()
	p := webPool(t, nil)
	for range 3 {
		if _, err := p.Execute(within(t, 30*time.Second), bullpen.Task{Name: "print-for-ever"}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHTTPNames: a task's name stays one part of the path.
func TestHTTPNames(t *testing.T) {
	t.Parallel()
	p := webPool(t, func(c *Config) { c.HTTP.Path = "/status/{name}" })
	for _, name := range []string{".", ".."} {
		_, err := p.Execute(t.Context(), bullpen.Task{Name: name})
		if te := wantOutcome(t, err, bullpen.Failed); te.Retryable || !strings.Contains(te.Message, "path") {
			t.Errorf("%q: %+v", name, te)
		}
	}
}
