package lambda

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/internal/wire"
)

func TestMain(m *testing.M) { leak.Main(m) }

// host records what a server reports.
type host struct {
	polled  chan struct{}
	dropped chan uint32
	answers chan answered
	failed  chan string
}

type answered struct {
	number uint32
	Answer
}

func (h *host) Polled()                { h.polled <- struct{}{} }
func (h *host) Dropped(number uint32)  { h.dropped <- number }
func (h *host) Failed(f *wire.Failure) { h.failed <- f.Error() }

func (h *host) Process() (int, <-chan struct{}) { return 0, nil }
func (h *host) Answered(inv *Invocation, a *Answer) {
	h.answers <- answered{inv.Number, *a}
}

func serve(t *testing.T, c Config) (*Server, *host) {
	t.Helper()
	h := &host{make(chan struct{}, 1000), make(chan uint32, 1000), make(chan answered, 1000), make(chan string, 1000)}
	c.Host = h
	if c.Concurrency == 0 {
		c.Concurrency = 1
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(time.Second) })
	return s, h
}

// client is a worker without any manners.
type client struct {
	t *testing.T
	http.Client

	base string
}

func newClient(t *testing.T, s *Server) *client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{t: t, Client: http.Client{Transport: transport}, base: "http://" + s.Address()}
}

const runtimePath = "/2018-06-01/runtime/"

// next polls, and returns the ID and the event.
func (c *client) next() (id, event string) {
	c.t.Helper()
	r, err := c.Get(c.base + runtimePath + "invocation/next")
	if err != nil {
		return "", err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return r.Header.Get("Lambda-Runtime-Aws-Request-Id"), string(text)
}

// post posts a body, and returns the status and the error type of the reply.
func (c *client) post(path, body string) string {
	c.t.Helper()
	r, err := c.Post(c.base+runtimePath+path, "", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprint(r.StatusCode, " ", string(text))
}

// give waits for a poll and offers it an event.
func give(t *testing.T, s *Server, h *host, inv Invocation) {
	t.Helper()
	<-h.polled
	if inv.Limit == 0 {
		inv.Limit = 100
	}
	if !s.Offer(&inv) {
		t.Fatal("no poll waits")
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	s, h := serve(t, Config{})
	c := newClient(t, s)
	for i, x := range []struct {
		path, body, reply string
		want              Answer
	}{
		{"response", `{"a":1}`, "202", Answer{Body: []byte(`{"a":1}`)}},
		{"response", "", "202", Answer{}},
		{"response", strings.Repeat("x", 100), "202", Answer{Body: []byte(strings.Repeat("x", 100))}},
		{"response", strings.Repeat("x", 101), "413 Function.ResponseSizeTooLarge", Answer{Size: 101}},
		{"error", `{"errorMessage":"no","errorType":"Bad","stackTrace":["a\n","b"]}`, "202", Answer{Failure: &wire.Failure{Type: "Bad", Message: "no", Stack: "a\nb"}}},
		{"error", "no JSON", "202", Answer{Failure: &wire.Failure{Message: "no JSON"}}},
	} {
		go func() { give(t, s, h, Invocation{Number: uint32(i), Payload: []byte("event")}) }() // ends with the poll below
		id, event := c.next()
		if event != "event" || len(id) != 36 {
			t.Fatalf("%q, %q", id, event)
		}
		want := strings.Fields(x.reply)
		for _, w := range want {
			if reply := c.post("invocation/"+id+"/"+x.path, x.body); !strings.Contains(reply, w) && w == want[0] {
				t.Errorf("%s %.20q: %s, want %s", x.path, x.body, reply, x.reply)
			}
			break
		}
		got := <-h.answers
		if got.number != uint32(i) || string(got.Body) != string(x.want.Body) || got.Size != x.want.Size || fmt.Sprint(got.Failure) != fmt.Sprint(x.want.Failure) {
			t.Errorf("%s %.20q: %+v, want %+v", x.path, x.body, got, x.want)
		}
		for _, again := range []string{"response", "error"} {
			if reply := c.post("invocation/"+id+"/"+again, "x"); !strings.HasPrefix(reply, "400 ") || !strings.Contains(reply, "InvalidRequestID") {
				t.Errorf("a second answer: %s", reply)
			}
		}
	}
	if reply := c.post("invocation/11111111-2222-3333-4444-555555555555/response", "x"); !strings.HasPrefix(reply, "400 ") {
		t.Errorf("an unknown ID: %s", reply)
	}
	for path, want := range map[string]string{"invocation/x/y": "404 ", "restore/next": "404 ", "init/error": "202 "} {
		if reply := c.post(path, `{"errorType":"Runtime.ImportModuleError","errorMessage":"no module"}`); !strings.HasPrefix(reply, want) {
			t.Errorf("%s: %s", path, reply)
		}
	}
	if got := <-h.failed; got != "Runtime.ImportModuleError: no module" {
		t.Errorf("it failed with %s", got)
	}
	if len(h.answers) > 0 || len(h.dropped) > 0 {
		t.Errorf("%d more answers, %d dropped", len(h.answers), len(h.dropped))
	}
}

// A body that streams has its error in the trailer.
func TestStreamedResponses(t *testing.T) {
	t.Parallel()
	s, h := serve(t, Config{})
	c := newClient(t, s)
	for _, x := range []struct{ kind, text, want string }{
		{"", "", "<nil>"},
		{"Unhandled", base64.StdEncoding.EncodeToString([]byte(`{"errorType":"Late","errorMessage":"in the middle"}`)), "Late: in the middle"},
		{"Unhandled", "not base64", "Unhandled"},
	} {
		go func() { give(t, s, h, Invocation{}) }() // ends with the poll below
		id, _ := c.next()
		body, write := io.Pipe()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.base+runtimePath+"invocation/"+id+"/response", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Lambda-Runtime-Function-Response-Mode", "streaming")
		r.Trailer = http.Header{"Lambda-Runtime-Function-Error-Type": nil, "Lambda-Runtime-Function-Error-Body": nil}
		go func() { // ends with the request
			_, _ = io.WriteString(write, "chunk")
			r.Trailer.Set("Lambda-Runtime-Function-Error-Type", x.kind)
			r.Trailer.Set("Lambda-Runtime-Function-Error-Body", x.text)
			_ = write.Close()
		}()
		reply, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = reply.Body.Close()
		got := <-h.answers
		text := "<nil>"
		if got.Failure != nil {
			text = got.Failure.Error()
		}
		if text != x.want || got.Failure == nil && string(got.Body) != "chunk" {
			t.Errorf("%+v: %q, %s", x, got.Body, text)
		}
	}
}

// A worker that breaks off has not answered, and may do so again.
func TestHalfBodies(t *testing.T) {
	t.Parallel()
	s, h := serve(t, Config{})
	c := newClient(t, s)
	go func() { give(t, s, h, Invocation{Number: 7}) }() // ends with the poll below
	id, _ := c.next()
	for _, head := range []string{"Content-Length: 50\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n5\r\nchu", "Transfer-Encoding: chunked\r\n\r\n5\r\nchunk\r\n"} {
		conn, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %sinvocation/%s/response HTTP/1.1\r\nHost: x\r\n%s", runtimePath, id, head)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, bufio.NewReader(conn)) // the server closes it
		_ = conn.Close()
	}
	if reply := c.post("invocation/"+id+"/response", "whole"); !strings.HasPrefix(reply, "202") {
		t.Error(reply)
	}
	if got := <-h.answers; string(got.Body) != "whole" || len(h.answers) > 0 {
		t.Errorf("%+v, and %d more", got, len(h.answers))
	}
}

// A worker that asks for more instead of answering has not done its task; one with several
// tasks may answer later.
func TestPollInsteadOfAnswer(t *testing.T) {
	t.Parallel()
	s, h := serve(t, Config{})
	c := newClient(t, s)
	go func() { give(t, s, h, Invocation{Number: 1}) }() // ends with the poll below
	first, _ := c.next()
	go func() { give(t, s, h, Invocation{Number: 2}) }() // ends with the poll below
	second, _ := c.next()
	if got := <-h.answers; got.number != 1 || !got.Broken {
		t.Errorf("%+v", got)
	}
	if reply := c.post("invocation/"+first+"/response", "late"); !strings.HasPrefix(reply, "400") {
		t.Error(reply)
	}
	if reply := c.post("invocation/"+second+"/response", "x"); !strings.HasPrefix(reply, "202") {
		t.Error(reply)
	}
}

// Many polls wait, and each gets its own event.
func TestManyPolls(t *testing.T) {
	t.Parallel()
	const n = 100
	s, h := serve(t, Config{Concurrency: n})
	c := newClient(t, s)
	c.Transport.(*http.Transport).MaxIdleConnsPerHost = n
	var workers sync.WaitGroup
	for range n {
		workers.Go(func() {
			id, event := c.next()
			c.post("invocation/"+id+"/response", event)
		})
	}
	for i := range n {
		give(t, s, h, Invocation{Number: uint32(i), Payload: fmt.Append(nil, i)})
	}
	seen := map[uint32]bool{}
	for range n {
		a := <-h.answers
		if seen[a.number] || string(a.Body) != fmt.Sprint(a.number) {
			t.Errorf("%+v", a)
		}
		seen[a.number] = true
	}
	workers.Wait()
	if s.Offer(&Invocation{}) {
		t.Error("a poll is left")
	}
}

// Release closes polls and the listener, and a poll that broke off gets nothing.
func TestRelease(t *testing.T) {
	t.Parallel()
	s, h := serve(t, Config{})
	conn, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %sinvocation/next HTTP/1.1\r\nHost: x\r\n\r\n", runtimePath)
	<-h.polled
	_ = conn.Close()
	for polls, _ := s.Waiting(); polls > 0; polls, _ = s.Waiting() {
		<-time.After(time.Millisecond)
	}
	if s.Offer(&Invocation{}) {
		t.Error("a poll that broke off was given an event")
	}
	c := newClient(t, s)
	ended := make(chan string)
	go func() { _, why := c.next(); ended <- why }()
	<-h.polled
	s.Release()
	if why := <-ended; !strings.Contains(why, "EOF") {
		t.Errorf("the poll ended with %s", why)
	}
	if _, why := c.next(); !strings.Contains(why, "refused") {
		t.Errorf("another poll ended with %s", why)
	}
}

// Whoever is not the worker is turned away, and nobody uses up the descriptors.
func TestAdmission(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, Config{Admit: func(net.Conn) error { return errors.New("a stranger") }})
	if id, why := newClient(t, s).next(); id != "" || why == "" {
		t.Errorf("a stranger's poll ended with %s", why)
	}
	s, _ = serve(t, Config{})
	var all []net.Conn
	for range mostConnections + 20 {
		conn, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	last := all[len(all)-1]
	_ = last.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := last.Read(make([]byte, 1)); err == nil || errors.Is(err, errTimeout) {
		t.Errorf("one connection too many ended with %v", err)
	}
	for _, conn := range all {
		_ = conn.Close()
	}
}

var errTimeout = errors.New("timeout")

func FuzzParseFailure(f *testing.F) {
	for _, seed := range []string{
		`{"errorMessage":"m","errorType":"T","stackTrace":["a","b"]}`, `{"errorMessage":"m","trace":["Error: x","  at y"]}`,
		`{"errorMessage":"m","errorType":"T","stackTrace":[{"path":"p","line":3,"label":"f"}]}`, `{}`, `[]`, `"text"`, "text", "", "\xff", `{"errorMessage":3}`,
	} {
		f.Add([]byte(seed), "Unhandled")
	}
	f.Fuzz(func(t *testing.T, body []byte, kind string) {
		got := ParseFailure(body, kind)
		if got == nil || got.Type == "" && kind != "" {
			t.Errorf("%q: %+v", body, got)
		}
	})
}
