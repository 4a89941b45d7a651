package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// TestClosedConnectionsAreSeen: a daemon that has closed an idle connection leaves
// no job unconfirmed.
func TestClosedConnectionsAreSeen(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(202)
		_, _ = io.WriteString(w, refText)
	}))
	closed := make(chan struct{}, 1)
	server.Config.IdleTimeout = 20 * time.Millisecond
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			conns.Add(1)
		case http.StateClosed:
			closed <- struct{}{}
		case http.StateActive, http.StateIdle, http.StateHijacked:
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c := connect(t, client.Config{URL: server.URL, Retries: -1})
	for i := range 5 {
		if _, err := c.Enqueue(t.Context(), job.Job{Queue: "p"}); err != nil {
			t.Fatalf("job %d: %v", i, err)
		}
		if i%2 == 0 {
			<-closed
		}
	}
	if n := conns.Load(); n > 4 {
		t.Errorf("%d connections were made for 5 calls, of which every second could use the one before", n)
	}
}

// raw serves connections by hand: each request gets the next text, and a text that
// ends with a bell also the end of its connection.
func raw(t *testing.T, texts ...string) (url string, conns *atomic.Int64) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int64)
	var next atomic.Int64
	var all sync.WaitGroup
	all.Go(func() { // ends with the listener; the end of the test waits for it
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			all.Go(func() { // ends with the connection
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					text := texts[min(int(next.Add(1)), len(texts))-1]
					if _, err := io.WriteString(c, strings.TrimSuffix(text, "\a")); err != nil || strings.HasSuffix(text, "\a") {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { listener.Close(); all.Wait() })
	return "http://" + listener.Addr().String(), conns
}

// TestAnswersByHand reads answers as net/http reads them.
func TestAnswersByHand(t *testing.T) {
	t.Parallel()
	const plain = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for name, c := range map[string]struct {
		text  string
		want  error
		conns int64 // for two calls
	}{
		"plain":              {plain, nil, 1},
		"chunked":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", nil, 1},
		"something before":   {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + plain, nil, 1},
		"to the end":         {"HTTP/1.0 200 OK\r\n\r\nok\a", nil, 2},
		"not to be kept":     {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", nil, 2},
		"something behind":   {plain + "HTTP/1.1 200 OK\r\n", nil, 2},
		"cut in its body":    {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok\a", job.ErrUnconfirmed, 2},
		"cut in its head":    {"HTTP/1.1 200 OK\r\nContent\a", job.ErrUnconfirmed, 2},
		"nothing":            {"\a", job.ErrUnconfirmed, 2},
		"another protocol":   {"SSH-2.0-OpenSSH\r\n\r\n\a", job.ErrUnconfirmed, 2},
		"switched protocols": {"HTTP/1.1 101 Switching Protocols\r\n\r\n", job.ErrUnconfirmed, 2},
		"an endless head":    {"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("x", 1000)+"\r\n", 400) + "\r\n\a", job.ErrUnconfirmed, 2},
		"too much":           {"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + strings.Repeat("x", 500), client.ErrTooLarge, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, conns := raw(t, c.text)
			caller := connect(t, client.Config{URL: at, Retries: -1, MaxResult: 100})
			for range 2 {
				p, err := caller.Payload(t.Context(), "01J")
				if !errors.Is(err, c.want) || c.want == nil && (err != nil || string(p) != "ok") {
					t.Errorf("Payload() = %q, %v, want %v", p, err, c.want)
				}
			}
			if n := conns.Load(); n != c.conns {
				t.Errorf("two calls took %d connections, want %d", n, c.conns)
			}
			caller.Close()
		})
	}
}

// TestCanceledConnectionIsNotUsedAgain: the answer that was not waited for is not
// taken for that of the next call.
func TestCanceledConnectionIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	come, leave := make(chan struct{}, 64), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "slow") {
			come <- struct{}{}
			<-leave
		}
		fmt.Fprint(w, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	c := connect(t, client.Config{URL: server.URL})
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // ends with the request, which the call below waits for
			<-come
			cancel()
			leave <- struct{}{}
		}()
		if _, err := c.Payload(ctx, "slow"); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled call gives %v", err)
		}
		cancel()
		if p, err := c.Payload(t.Context(), "next"); err != nil || string(p) != "/v1/jobs/next/payload" {
			t.Errorf("the next call gives %q, %v", p, err)
		}
	}
}
