package access

import (
	"bufio"
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

// TestFullDuplex has a handler that answers each line before it reads the next:
// the answer has begun long before the body ends.
func TestFullDuplex(t *testing.T) {
	t.Parallel()
	times := Times{Drain: 200 * time.Millisecond}
	s := serve(t, Config{Times: times}, []Route{{Method: "POST", Pattern: "/", Streams: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			send(w, "got "+lines.Text()+"\n")
			if err := c.Flush(); err != nil {
				t.Error(err)
			}
		}
		if err := lines.Err(); err != nil {
			t.Error(err)
		}
	})}})
	out, in := io.Pipe()
	r, err := http.NewRequest(http.MethodPost, s.url+"/", out)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	lines := make(chan string)
	all.Go(func() { // ends with lines, waited for below
		for l := range lines {
			if _, err := io.WriteString(in, l+"\n"); err != nil {
				t.Error(err)
			}
		}
		in.Close()
	})
	lines <- "0"
	a, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	answers := bufio.NewScanner(a.Body)
	for i := range 4 {
		if !answers.Scan() || answers.Text() != fmt.Sprintf("got %d", i) {
			t.Fatalf("answer %d is %q, %v", i, answers.Text(), answers.Err())
		}
		<-time.After(2 * times.Drain) // longer than an unread body may take
		if i < 3 {
			lines <- fmt.Sprint(i + 1)
		}
	}
	close(lines)
	all.Wait()
	if answers.Scan() {
		t.Errorf("one more answer: %q", answers.Text())
	}
}

// TestDripUnderPressure has a client that has sent half of a large body and goes
// on slowly. It may, until others need the room.
func TestDripUnderPressure(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	times := Times{Body: time.Second, Room: 20 * time.Second}
	s := serve(t, Config{HTTP: settings.HTTP{MaxBody: most, MaxInflight: most}, Times: times}, testRoutes())
	c := s.dial(t)
	fmt.Fprintf(c, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", most)
	send(c, strings.Repeat("x", most/2+1))
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { // ends with stop, waited for below
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				send(c, strings.Repeat("x", 1000)) // 50 KB/s at most
			}
		}
	})
	<-time.After(2 * times.Body)
	s.control.room.mu.Lock()
	free := s.control.room.free
	s.control.room.mu.Unlock()
	if free > most/2 {
		t.Errorf("%d bytes are free: who kept the bounds was cut off", free)
	}
	if status, text := s.post(t, "/v1/jobs", strings.NewReader(strings.Repeat("y", most)), most); status != 200 {
		t.Errorf("status %d: %.300s", status, text)
	}
	close(stop)
	all.Wait()
	if a, err := answer(c); err == nil && a.status != 400 {
		t.Errorf("the slow one gets %d: %s", a.status, a.text)
	}
}

// TestOwnDeadline has a handler that sets a deadline for its answer: it holds
// instead of that of Control, and ends with the request.
func TestOwnDeadline(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s := serve(t, Config{Times: Times{Answer: time.Hour}}, []Route{
		{Method: "GET", Pattern: "/quick", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusAccepted)
			w.WriteHeader(http.StatusTeapot) // too late
		})},
		{Method: "GET", Pattern: "/large", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
				t.Error(err)
			}
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					ended <- err
					return
				}
			}
		})},
	})
	s.want(t, 202, "", "GET", "/quick", "")
	eventually(t, "the deadline of a request ends with it", func() bool {
		s.inner.mu.Lock()
		defer s.inner.mu.Unlock()
		for c := range s.inner.open {
			if c.own.Load() {
				return false
			}
		}
		return true
	})
	c := s.dial(t)
	send(c, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case err := <-ended:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("it ended by", err)
		}
	case <-time.After(time.Minute):
		t.Error("the deadline does not hold")
	}
}
