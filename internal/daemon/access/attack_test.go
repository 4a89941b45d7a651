package access

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/leak"
)

// gone waits until the other side closes c, and returns what it said before.
func gone(t *testing.T, c net.Conn) string {
	t.Helper()
	text, err := io.ReadAll(c)
	if e, ok := err.(net.Error); ok && e.Timeout() { //nolint:errorlint // it is not wrapped
		t.Fatal("the connection was not closed")
	}
	return string(text)
}

func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{Times: Times{Header: 300 * time.Millisecond}}, testRoutes())
	for _, text := range []string{"", "GET / HT", "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: "} {
		c := s.dial(t)
		fmt.Fprint(c, text)
		start := time.Now()
		gone(t, c)
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%q: cut off after %v", text, took)
		}
	}
}

// TestOptionsOfAll has a request that net/http would answer by itself, before
// anything has looked at it.
func TestOptionsOfAll(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{HTTP: settings.HTTP{MaxConnections: 2}}, testRoutes())
	for range 3 {
		c := s.dial(t)
		fmt.Fprint(c, "OPTIONS * HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 10\r\n\r\n")
		if a, err := answer(c); err != nil || a.status != http.StatusForbidden {
			t.Errorf("the answer is %v, %v", a, err)
		}
	}
	c := s.dial(t)
	fmt.Fprint(c, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
	gone(t, c)
	s.want(t, 200, "", "GET", "/livez", "")
}

func TestHugeHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{}, testRoutes())
	c := s.dial(t)
	go func() { // ends when the server closes the connection, or the test does
		fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n")
		for i := range 100_000 {
			if _, err := fmt.Fprintf(c, "X-%d: %s\r\n", i, strings.Repeat("y", 100)); err != nil {
				return
			}
		}
	}()
	a, err := answer(c)
	if err == nil && a.status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", a.status)
	}
	s.want(t, 200, "", "GET", "/livez", "")
}

// TestUnreadAnswer has a client that asks for much and reads nothing.
func TestUnreadAnswer(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	piece := bytes.Repeat([]byte("x"), 1<<20)
	route := Route{Method: "GET", Pattern: "/large", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(piece); err != nil {
				ended <- err
				return
			}
		}
	})}
	cert, key := writePair(t, t.TempDir(), 1)
	for name, c := range map[string]settings.HTTP{"HTTP/1": {}, "HTTP/2": {Cert: cert, Key: key}} {
		s := serve(t, Config{HTTP: c, Times: Times{Answer: 500 * time.Millisecond}}, []Route{route, {Method: "GET", Pattern: "/livez", Handler: say("alive")}})
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/large", nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if (a.ProtoMajor == 2) != (name == "HTTP/2") {
			t.Errorf("%s: it is %s", name, a.Proto)
		}
		start := time.Now()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("%s: who does not read is not cut off", name)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s: cut off after %v", name, took)
		}
		s.want(t, 200, "", "GET", "/livez", "") // the same connection, where it is HTTP/2
		cancel()
		a.Body.Close()
	}
}

// TestSlowReader is one that reads slowly, and gets all.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	const size = 6 << 20
	s := serve(t, Config{Times: Times{Answer: 2 * time.Second}}, []Route{{Method: "GET", Pattern: "/large", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		send(w, strings.Repeat("x", size))
	})}})
	c := s.dial(t)
	if err := c.(*net.TCPConn).SetReadBuffer(256 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	tick := time.NewTicker(8 * time.Millisecond)
	defer tick.Stop()
	total, part := 0, make([]byte, 16<<10)
	for {
		<-tick.C
		n, err := c.Read(part)
		total += n
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", total, err)
		}
	}
	if total < size {
		t.Errorf("%d bytes came, not %d", total, size)
	}
}

// TestPlaces fills all places with clients that say nothing: others get in all the
// same, and only while every one is at work are they refused.
func TestPlaces(t *testing.T) {
	t.Parallel()
	here, leave := make(chan struct{}, 10), make(chan struct{})
	times := Times{Header: time.Minute, Idle: time.Minute, Place: 200 * time.Millisecond, Settle: 200 * time.Millisecond}
	s := serve(t, Config{HTTP: settings.HTTP{MaxConnections: 4}, Times: times}, append(testRoutes(),
		Route{Method: "GET", Pattern: "/hold", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			here <- struct{}{}
			<-leave
		})}))
	for range 20 {
		fmt.Fprint(s.dial(t), "GET /livez HTTP/1.1\r\nX-Slow: ")
	}
	s.want(t, 200, "", "GET", "/livez", "")
	s.client.CloseIdleConnections()

	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { // ends with leave, waited for below
			c := s.dial(t)
			fmt.Fprint(c, "GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n")
			a, err := answer(c)
			if err != nil || a.status != 200 {
				t.Errorf("who was at work was cut off: %v", err)
			}
			c.Close()
		})
	}
	for range 4 {
		<-here
	}
	newcomer := s.dial(t)
	fmt.Fprint(newcomer, "GET /v1/jobs/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	text := gone(t, newcomer)
	if a, err := answer(strings.NewReader(text)); err != nil || a.status != 429 || a.header.Get("Retry-After") == "" || !strings.Contains(a.text, "http.max_connections") {
		t.Errorf("a newcomer while all are at work: %q %v", text, err)
	}
	for range 3 * spareConnections {
		s.dial(t) // they say nothing, and have all spare places
	}
	s.want(t, 200, "", "GET", "/livez", "")
	s.client.CloseIdleConnections()
	close(leave)
	all.Wait()
	s.want(t, 200, "", "GET", "/livez", "")
}

// attacks are what clients send that mean no good, or are broken.
var attacks = []string{
	"",
	"GET /livez HTTP/1.1\r\n",
	"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + submitToken + "\r\nContent-Length: 1000000\r\n\r\nxxx",
	"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + submitToken + "\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nxx",
	"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nxxx",
	"GET /v1/jobs/1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + wrongToken + "\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("y", 70<<10),
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	strings.Repeat("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 50),
}

// TestFlood opens many connections that do many things wrong, and looks at what is
// left afterwards. It runs alone, so that it can look at the whole process.
func TestFlood(t *testing.T) { //nolint:paralleltest // see above
	count := 600
	if os.Getenv("BULLPEN_LONG") != "" {
		count = 10_000
	}
	leak.Check(t)
	before := heap()
	s := serve(t, Config{
		HTTP: settings.HTTP{Tokens: tokenFile(t), MaxConnections: 128, MaxBody: 1 << 20, MaxInflight: 4 << 20},
		Times: Times{
			Header: 300 * time.Millisecond, Idle: 500 * time.Millisecond, Body: 300 * time.Millisecond, Drain: 200 * time.Millisecond,
			Answer: 500 * time.Millisecond, Room: 200 * time.Millisecond, Place: 200 * time.Millisecond, Settle: 50 * time.Millisecond,
		},
		Logger: slog.New(slog.DiscardHandler),
	}, testRoutes())
	var all sync.WaitGroup
	room := make(chan struct{}, 200)
	for i := range count {
		room <- struct{}{}
		all.Go(func() { // ends with its connection, waited for below
			defer func() { <-room }()
			var d net.Dialer
			c, err := d.DialContext(t.Context(), "tcp", s.address)
			if err != nil {
				return // refused while it was full
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
				return
			}
			send(c, attacks[i%len(attacks)])
			skip(c)
		})
	}
	eventually(t, "another one gets through, in the middle of it", func() bool {
		a, err := s.client.Get(s.url + "/livez")
		if err != nil {
			return false
		}
		defer a.Body.Close()
		return a.StatusCode == http.StatusOK
	})
	all.Wait()
	eventually(t, "all places are free", func() bool {
		s.inner.mu.Lock()
		defer s.inner.mu.Unlock()
		return len(s.inner.open) <= 1 // that of our client
	})
	flat(t, s.control.room)
	if after := heap(); after > before+8<<20 {
		t.Errorf("the heap has grown from %d to %d bytes", before, after)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cert, key := writePair(t, folder, 1)
	s := serve(t, Config{HTTP: settings.HTTP{Cert: cert, Key: key}, Times: Times{Look: 20 * time.Millisecond}}, testRoutes())
	serial := func() int64 {
		t.Helper()
		c, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(); n != 1 {
		t.Error("certificate", n)
	}
	a, err := s.client.Get(s.url + "/v1/jobs/1")
	if err != nil || a.ProtoMajor != 2 || a.StatusCode != 200 {
		t.Fatalf("%v %v", a, err)
	}
	a.Body.Close()
	if c, err := tls.Dial("tcp", s.address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		c.Close()
		t.Error("TLS 1.1 is spoken")
	}
	c := s.dial(t)
	fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if text := gone(t, c); !strings.HasPrefix(text, "HTTP/1.0 400") {
		t.Errorf("plain HTTP gets %q", text)
	}
	writeFile(t, cert, "no certificate")
	eventually(t, "the fault is logged", func() bool { return strings.Contains(s.log.String(), "cannot be used") })
	if n := serial(); n != 1 {
		t.Error("the old pair is gone, certificate", n)
	}
	writePair(t, folder, 2)
	eventually(t, "the new pair is in use", func() bool { return serial() == 2 })
	if text := s.log.String(); strings.Contains(text, "PRIVATE") || strings.Contains(text, filepath.Join(folder, "x")) {
		t.Error("the log shows too much:", text)
	}
}

func TestListenNames(t *testing.T) {
	t.Parallel()
	g, err := New(Config{HTTP: settings.HTTP{Listen: "localhost:0"}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := g.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.Close()
	g.http.Listen = "0.0.0.0:0" // as if localhost stood for something else
	if l, err := g.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "needs TLS and tokens") {
		t.Errorf("%v %v", l, err)
	}
	g.http.Listen = "127.0.0.1:99999"
	if l, err := g.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "http.listen") {
		t.Errorf("%v %v", l, err)
	}
}
