package poolhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/pool"
)

func TestMain(m *testing.M) { leak.Main(m) }

func open(t testing.TB, c pool.Config) *pool.Pool {
	t.Helper()
	p, err := pool.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func lane(t testing.TB, p *pool.Pool, c pool.LaneConfig) *pool.Lane {
	t.Helper()
	if c.Name == "" {
		c.Name = "web"
	}
	if c.Overflow == pool.Block {
		c.Overflow = pool.Reject
	}
	l, err := p.Lane(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wrap(t testing.TB, c Config, h http.HandlerFunc) http.Handler {
	t.Helper()
	wrapped, err := c.Handler(h)
	if err != nil {
		t.Fatal(err)
	}
	return wrapped
}

// serve starts a server that is ended with the test.
func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func get(t testing.TB, h http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
	return w
}

func TestFaults(t *testing.T) {
	t.Parallel()
	p := open(t, pool.Config{})
	blocking, err := p.Lane(pool.LaneConfig{Name: "blocking"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config Config
		want   []string
	}{
		{Config{}, []string{"Target is nil"}},
		{Config{Target: (*pool.Lane)(nil), Wait: -1}, []string{"Target is nil", "Wait is -1ns"}},
		{Config{Target: (*pool.Pool)(nil)}, []string{"Target is nil"}},
		{Config{Target: pool.Submitter{}}, []string{"Target is nil"}},
		{Config{Target: blocking}, []string{`"block"`, "use pool.Reject"}},
		{Config{Target: blocking.With(pool.Options{Name: "x"})}, []string{`"block"`}},
		{Config{Target: p}, []string{`"block"`}},
	} {
		_, err := c.config.Handler(nil)
		for _, want := range append(c.want, "the handler is nil") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v does not say %q", c.config, err, want)
			}
		}
	}
	if _, err := Handler(open(t, pool.Config{Overflow: pool.DropOldest}), http.NotFoundHandler()); err != nil {
		t.Error(err)
	}
}

type keyOfTest struct{}

// TestAnswers: what a handler answers arrives as without a lane, and it sees the
// request as without.
func TestAnswers(t *testing.T) {
	t.Parallel()
	l := lane(t, open(t, pool.Config{}), pool.LaneConfig{})
	for name, h := range map[string]http.HandlerFunc{
		"nothing": func(http.ResponseWriter, *http.Request) {},
		"text":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"status": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Seen", "yes")
			w.WriteHeader(http.StatusTeapot)
			w.Header().Set("X-Seen", "too late")
			fmt.Fprint(w, "tea")
		},
		"outer header": func(w http.ResponseWriter, _ *http.Request) { w.Header().Del("X-Outer") },
		"no body": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("write after 204: %v", err)
			}
		},
		"large": func(w http.ResponseWriter, _ *http.Request) {
			for range 3000 {
				fmt.Fprint(w, strings.Repeat("0123456789", 100))
			}
		},
		"body": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
			fmt.Fprint(w, r.Context().Value(keyOfTest{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, buffer := range []int{0, -1, 100} {
				wrapped := wrap(t, Config{Target: l, Buffer: buffer}, h)
				if want, got := ask(t, h), ask(t, wrapped); want != got {
					t.Errorf("%.300s\nwant %.300s", got, want)
				}
			}
		})
	}
}

// ask gives all that arrives at a client of h.
func ask(t *testing.T, h http.Handler) string {
	t.Helper()
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Outer", "1")
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), keyOfTest{}, "value")))
	}))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("question "))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	resp.Header.Del("Date")
	return fmt.Sprint(resp.Status, resp.Header, resp.TransferEncoding, string(body))
}

// TestRefusals: 503 with Retry-After where the handler was not started, 504 at the
// deadline, 500 after a panic.
func TestRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, pool.Config{Max: 2})
		l := lane(t, p, pool.LaneConfig{Limit: 1, Queue: 1, Timeout: 10 * time.Second})
		late := make(chan error, 1)
		h := wrap(t, Config{Target: l, Wait: 3 * time.Second, RetryAfter: 1500 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Handler", "yes")
			fmt.Fprint(w, "half an answer")
			<-r.Context().Done()
			<-time.After(time.Minute)
			_, err := fmt.Fprint(w, "the rest")
			late <- err
		})
		begin := time.Now()
		var all sync.WaitGroup
		all.Go(func() { wantAnswer(t, "overrun", get(t, h), 504, "", 10*time.Second, begin) })
		synctest.Wait()
		all.Go(func() { wantAnswer(t, "waits too long", get(t, h), 503, "2", 3*time.Second, begin) })
		synctest.Wait()
		wantAnswer(t, "overloaded", get(t, h), 503, "2", 0, begin)
		all.Wait()
		// The body holds its place, so the next one is not started either.
		wantAnswer(t, "behind a stuck body", get(t, h), 503, "2", 13*time.Second, begin)
		if err := <-late; !errors.Is(err, http.ErrHandlerTimeout) {
			t.Errorf("the late write: %v", err)
		}
		if s := l.Stats(); s.Queued != 0 || s.Refused != 1 {
			t.Errorf("%+v", s)
		}
		if err := p.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		wantAnswer(t, "closed", get(t, h), 503, "2", time.Since(begin), begin)
	})
}

func wantAnswer(t *testing.T, what string, w *httptest.ResponseRecorder, status int, retry string, after time.Duration, begin time.Time) {
	t.Helper()
	if w.Code != status || w.Header().Get("Retry-After") != retry || w.Header().Get("X-Handler") != "" {
		t.Errorf("%s: %d, %v", what, w.Code, w.Header())
	}
	if body := w.Body.String(); strings.Contains(body, "half") || !strings.Contains(body, http.StatusText(status)) {
		t.Errorf("%s: the body is %q", what, body)
	}
	if d := time.Since(begin); d < after || d > after+3*time.Millisecond {
		t.Errorf("%s: answered after %v, want %v", what, d, after)
	}
}

// TestPanics: a panic is 500, http.ErrAbortHandler and Goexit too late abort.
func TestPanics(t *testing.T) {
	t.Parallel()
	p := open(t, pool.Config{})
	l := lane(t, p, pool.LaneConfig{})
	for _, c := range []struct {
		name   string
		status int // 0 is an aborted connection
		h      http.HandlerFunc
	}{
		{"panic", 500, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a"); panic("secret") }},
		{"uncomparable", 500, func(http.ResponseWriter, *http.Request) { panic([]int{1}) }},
		{"goexit", 500, func(http.ResponseWriter, *http.Request) { runtime.Goexit() }},
		{"bad status", 500, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1000) }},
		{"abort", 0, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a"); panic(http.ErrAbortHandler) }},
		{"too late", 0, func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "a")
			_ = http.NewResponseController(w).Flush()
			panic("secret")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				err, _ := recover().(error)
				if aborted := errors.Is(err, http.ErrAbortHandler); aborted != (c.status == 0) {
					t.Errorf("left with %v", err)
				}
			}()
			w := get(t, wrap(t, Config{Target: l}, c.h))
			if w.Code != c.status || w.Header().Get("Retry-After") != "" || strings.Contains(w.Body.String(), "secret") {
				t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
			}
		})
	}
	if s := l.Stats(); s.Running != 0 && s.Started != 6 {
		t.Errorf("%+v", s)
	}
}

// TestClientGoes: the request of a client that has gone is removed from the
// queue, and the context of a running one ends.
func TestClientGoes(t *testing.T) {
	t.Parallel()
	l := lane(t, open(t, pool.Config{}), pool.LaneConfig{Limit: 1, Queue: 1})
	running, ended := make(chan struct{}), make(chan error, 1)
	var runs atomic.Int64
	s := serve(t, wrap(t, Config{Target: l}, func(_ http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		close(running)
		<-r.Context().Done()
		ended <- r.Context().Err()
	}))
	first := client(t, s)
	<-running
	second := client(t, s)
	until(t, "the second request waits", func() bool { return l.Stats().Queued == 1 })
	second()
	until(t, "the second request is removed", func() bool { return l.Stats().Queued == 0 })
	first()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the context of the first request: %v", err)
	}
	until(t, "the lane is empty", func() bool { return l.Stats().Running == 0 })
	if n := runs.Load(); n != 1 {
		t.Errorf("%d requests ran, want 1", n)
	}
}

// client sends a request until it is stopped.
func client(t *testing.T, s *httptest.Server) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with leave, at the latest with the test
		if resp, err := s.Client().Do(r); err == nil {
			_ = resp.Body.Close()
		}
	}()
	return cancel
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit, look := time.After(20*time.Second), time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-look.C:
		case <-limit:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
