package access

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// chunked hides the length of a reader.
type chunked struct{ io.Reader }

// post sends a body whose length is announced or not.
func (s *served) post(t *testing.T, path string, body io.Reader, length int64) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = length
	a, err := s.client.Do(r)
	if err != nil {
		t.Fatalf("%s with %d: %v", path, length, err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

func TestBodySize(t *testing.T) {
	t.Parallel()
	const most = 100_000
	s := serve(t, Config{HTTP: settings.HTTP{MaxBody: most, MaxInflight: most}}, testRoutes())
	for _, n := range []int{0, 1, firstRoom - 1, firstRoom, firstRoom + 1, 3 * firstRoom, most - 1, most, most + 1, 2 * most} {
		for _, length := range []int64{int64(n), -1} {
			status, text := s.post(t, "/v1/jobs", chunked{strings.NewReader(strings.Repeat("x", n))}, length)
			if n <= most && (status != 200 || len(text) != n) {
				t.Errorf("%d bytes, announced %d: status %d, %d bytes back", n, length, status, len(text))
			}
			if n > most && (status != 413 || !strings.Contains(text, `"too-large"`) || !strings.Contains(text, "100000")) {
				t.Errorf("%d bytes, announced %d: status %d: %.300s", n, length, status, text)
			}
		}
	}
	status, text := s.post(t, "/v1/bulk", chunked{strings.NewReader(strings.Repeat("x", 50*most))}, -1)
	if status != 200 || strings.TrimSpace(text) != fmt.Sprint(50*most) {
		t.Errorf("a body that is worked off as it comes: status %d: %s", status, text)
	}
	flat(t, s.control.room)
}

// TestBodyErrors checks what handlers see.
func TestBodyErrors(t *testing.T) {
	t.Parallel()
	seen := make(chan error, 1)
	s := serve(t, Config{HTTP: settings.HTTP{MaxBody: 10}}, []Route{{Method: "POST", Pattern: "/", Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			_, again := r.Body.Read(make([]byte, 1))
			if n, none := r.Body.Read(nil); !errors.Is(again, err) || n != 0 || none == nil {
				err = fmt.Errorf("another error the second time: %w", again)
			}
			seen <- err
			send(w, "the handler does not mind")
		})}})
	status, text := s.post(t, "/", chunked{strings.NewReader("twelve bytes")}, -1)
	var large *http.MaxBytesError
	if err := <-seen; !errors.As(err, &large) || large.Limit != 10 {
		t.Errorf("the handler sees %v", err)
	}
	if status != 200 || text != "the handler does not mind" {
		t.Errorf("an answer that is no error was replaced: %d %s", status, text)
	}
}

func TestNoRoom(t *testing.T) {
	t.Parallel()
	here, leave := make(chan struct{}), make(chan struct{})
	s := serve(t, Config{HTTP: settings.HTTP{MaxBody: 64 << 10, MaxInflight: 64 << 10}, Times: Times{Room: 200 * time.Millisecond}}, append(testRoutes(),
		Route{Method: "POST", Pattern: "/hold", Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			skip(r.Body)
			here <- struct{}{}
			<-leave
		})}))
	var all sync.WaitGroup
	all.Go(func() { // waited for below
		a, err := s.client.Post(s.url+"/hold", "", strings.NewReader(strings.Repeat("x", 64<<10)))
		if err != nil {
			t.Error(err)
			return
		}
		a.Body.Close()
	})
	<-here
	status, text := s.post(t, "/v1/jobs", strings.NewReader("x"), 1)
	if status != 429 || !strings.Contains(text, `"rate"`) || !strings.Contains(text, "http.max_inflight") {
		t.Errorf("status %d: %s", status, text)
	}
	s.want(t, 200, "", "GET", "/v1/jobs/1", "") // has no body, so it needs no room
	close(leave)
	all.Wait()
	if status, text = s.post(t, "/v1/jobs", strings.NewReader("x"), 1); status != 200 {
		t.Errorf("afterwards: status %d: %s", status, text)
	}
	eventually(t, "all room is given back", func() bool {
		s.control.room.mu.Lock()
		defer s.control.room.mu.Unlock()
		return s.control.room.free == s.control.room.size
	})
}

func TestRelease(t *testing.T) {
	t.Parallel()
	free := make(chan int64, 3)
	var s *served
	left := func() {
		s.control.room.mu.Lock()
		defer s.control.room.mu.Unlock()
		free <- s.control.room.size - s.control.room.free
	}
	s = serve(t, Config{}, []Route{{Method: "POST", Pattern: "/", Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		Release(r) // too early
		skip(r.Body)
		left()
		Release(r)
		left()
		Release(r)
		Release(&http.Request{})
	})}})
	if status, text := s.post(t, "/", strings.NewReader(strings.Repeat("x", 10_000)), 10_000); status != 200 {
		t.Errorf("status %d: %s", status, text)
	}
	if before, after := <-free, <-free; before != 10_000 || after != 0 {
		t.Errorf("it held %d bytes, and %d afterwards", before, after)
	}
	flat(t, s.control.room)
}

// TestSlowStream is a slow body over HTTP/2: its stream ends, and others go on.
func TestSlowStream(t *testing.T) {
	t.Parallel()
	cert, key := writePair(t, t.TempDir(), 1)
	s := serve(t, Config{HTTP: settings.HTTP{Cert: cert, Key: key}, Times: Times{Body: 500 * time.Millisecond}}, testRoutes())
	out, in := io.Pipe()
	defer in.Close()
	start := time.Now()
	status, text := s.post(t, "/v1/jobs", out, 100_000)
	if status != 400 || !strings.Contains(text, "too slowly") {
		t.Errorf("status %d: %s", status, text)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("cut off after %v", took)
	}
	s.want(t, 200, "", "POST", "/v1/jobs", "quick")
	flat(t, s.control.room)
}

// TestAnnouncedBody has clients that announce much and send nothing: they hold
// next to nothing, and not for long.
func TestAnnouncedBody(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	s := serve(t, Config{HTTP: settings.HTTP{MaxBody: most, MaxInflight: most}, Times: Times{Body: 3 * time.Second}}, testRoutes())
	for range 20 {
		c := s.dial(t)
		fmt.Fprintf(c, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", most)
	}
	eventually(t, "they hold something", func() bool {
		s.control.room.mu.Lock()
		defer s.control.room.mu.Unlock()
		return s.control.room.free <= most-20*firstRoom
	})
	if status, text := s.post(t, "/v1/jobs", strings.NewReader(strings.Repeat("x", most/2)), most/2); status != 200 {
		t.Errorf("another one: status %d: %s", status, text)
	}
	eventually(t, "they are cut off", func() bool {
		s.control.room.mu.Lock()
		defer s.control.room.mu.Unlock()
		return s.control.room.free == most
	})
}

func TestSlowBody(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{Times: Times{Body: 300 * time.Millisecond}}, testRoutes())
	for name, drip := range map[string]time.Duration{"nothing": time.Hour, "drops": 20 * time.Millisecond} {
		c := s.dial(t)
		fmt.Fprint(c, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nx")
		stop := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { // ends with the answer below, which waits for it
			tick := time.NewTicker(drip)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					if _, err := c.Write([]byte("x")); err != nil {
						return
					}
				}
			}
		})
		start := time.Now()
		a, err := answer(c)
		if err != nil {
			// What still comes when the server closes the connection may take the answer along.
			if name == "nothing" || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: no answer: %v", name, err)
			}
		} else if a.status != 400 || !strings.Contains(a.text, "too slowly") || !a.closes {
			t.Errorf("%s: status %d: %s", name, a.status, a.text)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s: cut off after %v", name, took)
		}
		close(stop)
		all.Wait()
	}
	flat(t, s.control.room)
}

// TestSteadyBody is one that takes longer than each bound, and keeps all of them.
func TestSteadyBody(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{Times: Times{Body: 1500 * time.Millisecond}}, testRoutes())
	c := s.dial(t)
	fmt.Fprint(c, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 20 {
		<-tick.C
		send(c, strings.Repeat("x", 1000))
	}
	a, err := answer(c)
	if err != nil {
		t.Fatal(err)
	}
	if a.status != 200 || len(a.text) != 20_000 {
		t.Errorf("status %d, %d bytes: %.200s", a.status, len(a.text), a.text)
	}
}

// TestLongHandler checks that a deadline of a body does not end a handler that
// works on after it.
func TestLongHandler(t *testing.T) {
	t.Parallel()
	times := Times{Body: 700 * time.Millisecond, Answer: 700 * time.Millisecond}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		skip(r.Body)
		select {
		case <-r.Context().Done():
			return
		case <-time.After(2 * times.Body):
		}
		send(w, "done")
	})
	folder := t.TempDir()
	cert, key := writePair(t, folder, 1)
	for _, c := range []settings.HTTP{{}, {Cert: cert, Key: key}} {
		s := serve(t, Config{HTTP: c, Times: times}, []Route{{Method: "POST", Pattern: "/", Handler: handler}})
		if status, text := s.post(t, "/", strings.NewReader("body"), 4); status != 200 || text != "done" {
			t.Errorf("%s: status %d: %s", s.url, status, text)
		}
	}
}
