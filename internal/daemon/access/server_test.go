package access

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// logText is a log that can be read while it is written.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// served is a Control that listens.
type served struct {
	control *Control
	address string
	url     string
	client  *http.Client
	log     *logText
	inner   *listener
}

// echo answers with the body, or says what was wrong with it in words of its own.
func echo(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		problem.New(problem.BadRequest, "the handler could not read").Write(w)
		return
	}
	send(w, string(text))
}

// send writes text to who may have gone.
func send(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// skip reads r to its end, or until it fails.
func skip(r io.Reader) { _, _ = io.Copy(io.Discard, r) }

// reply is an answer that was read from a connection.
type reply struct {
	status int
	header http.Header
	closes bool
	text   string
}

// answer reads an answer from a connection.
func answer(r io.Reader) (reply, error) {
	a, err := http.ReadResponse(bufio.NewReader(r), nil)
	if err != nil {
		return reply{}, err
	}
	defer a.Body.Close()
	all, err := io.ReadAll(a.Body)
	return reply{a.StatusCode, a.Header, a.Close, string(all)}, err
}

func say(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { send(w, text) })
}

// testRoutes has a route for each role.
func testRoutes() []Route {
	return []Route{
		{Method: "GET", Pattern: "/livez", Handler: say("alive")},
		{Method: "GET", Pattern: "/v1/jobs/{id}", Role: Read, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			send(w, r.PathValue("id")+" "+RoleOf(r.Context()).String())
		})},
		{Method: "POST", Pattern: "/v1/jobs", Role: Submit, Handler: http.HandlerFunc(echo)},
		{Method: "POST", Pattern: "/v1/bulk", Role: Submit, Streams: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil {
				problem.New(problem.BadRequest, err.Error()).Write(w)
				return
			}
			send(w, fmt.Sprint(n))
		})},
		{Method: "DELETE", Pattern: "/v1/jobs/{id}", Role: Admin, Handler: say("gone")},
	}
}

// serve makes a Control from c and serves routes until the test ends.
func serve(t *testing.T, c Config, routes []Route) *served {
	t.Helper()
	s := &served{log: &logText{}}
	if c.HTTP.Listen == "" {
		c.HTTP.Listen = "127.0.0.1:0"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := g.Listen(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	server := g.Server(g.Wrap(routes, nil))
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(l) }) // ends by Close below, which waits for it
	transport := &http.Transport{}
	s.control, s.address, s.client = g, l.Addr().String(), &http.Client{Transport: transport, Timeout: 30 * time.Second}
	s.url = "http://" + s.address
	s.inner, _ = l.(*listener)
	if g.cert != nil {
		s.url = "https://" + s.address
		transport.ForceAttemptHTTP2 = true
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
		done.Wait()
	})
	return s
}

// do sends a request and returns the status, the headers and the body of its
// answer.
func (s *served) do(t *testing.T, method, path, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	a, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header, string(text)
}

// want checks the answer of do.
func (s *served) want(t *testing.T, status int, cause, method, path, body string, headers ...string) string {
	t.Helper()
	got, h, text := s.do(t, method, path, body, headers...)
	if got != status {
		t.Fatalf("%s %s %q: status %d, want %d: %s", method, path, headers, got, status, text)
	}
	if cause != "" {
		if h.Get("Content-Type") != "application/problem+json" || !strings.Contains(text, `"cause":"`+cause+`"`) {
			t.Fatalf("%s %s %q: no problem of cause %s: %s", method, path, headers, cause, text)
		}
	}
	return text
}

// dial opens a connection on which the test itself speaks HTTP.
func (s *served) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// writeFile writes a file that only its owner may read.
func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	// Another file takes its place at once, as tools do it.
	next := path + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// writePair writes a certificate and its key with a number of its own.
func writePair(t *testing.T, folder string, serial int64) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "bullpen"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	writeFile(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	writeFile(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
	return cert, key
}

// eventually waits until ok says yes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

func TestRoles(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{}, testRoutes())
	if text := s.want(t, 200, "", "GET", "/v1/jobs/7", ""); text != "7 admin" {
		t.Errorf("answer %q", text)
	}
	if text := s.want(t, 200, "", "POST", "/v1/jobs", "payload"); text != "payload" {
		t.Errorf("answer %q", text)
	}
	s.want(t, 404, "not-found", "GET", "/nothing", "")
	s.want(t, 404, "not-found", "PATCH", "/v1/jobs", "")
	for r, want := range map[Role]string{None: "none", Read: "read", Submit: "submit", Admin: "admin"} {
		if r.String() != want {
			t.Errorf("%d is %q", r, r)
		}
	}
	if RoleOf(context.Background()) != None {
		t.Error("a context without a role has one")
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cert, key := writePair(t, folder, 1)
	bad := writeFile(t, filepath.Join(folder, "bad"), "boss x abc\n")
	good := writeFile(t, filepath.Join(folder, "good"), "admin me 0123456789abcdef\n")
	for _, c := range []struct {
		name string
		http settings.HTTP
		want []string // nothing: no fault
	}{
		{"zero", settings.HTTP{}, nil},
		{"other loopback", settings.HTTP{Listen: "127.1.2.3:80"}, nil},
		{"version 6", settings.HTTP{Listen: "[::1]:80"}, nil},
		{"mapped", settings.HTTP{Listen: "[::ffff:127.0.0.1]:80"}, nil},
		{"all addresses", settings.HTTP{Listen: ":8650"}, []string{"needs both TLS (http.tls.cert, http.tls.key) and tokens"}},
		{"a name", settings.HTTP{Listen: "example.com:8650"}, []string{"other machines"}},
		{"tokens alone", settings.HTTP{Listen: "0.0.0.0:1", Tokens: good}, []string{"needs both"}},
		{"TLS alone", settings.HTTP{Listen: "0.0.0.0:1", Cert: cert, Key: key}, []string{"needs both"}},
		{"both", settings.HTTP{Listen: "0.0.0.0:1", Cert: cert, Key: key, Tokens: good}, nil},
		{"half a pair", settings.HTTP{Cert: cert}, []string{"belong together"}},
		{"no such file", settings.HTTP{Cert: cert, Key: key + "x"}, []string{"not a certificate and its key"}},
		{"no port", settings.HTTP{Listen: "localhost"}, []string{"not host:port"}},
		{"numbers", settings.HTTP{MaxBody: -1, MaxConnections: -1, Rate: -1}, []string{"max_body", "max_connections", "http.rate"}},
		{"no room", settings.HTTP{MaxBody: 10, MaxInflight: 9}, []string{"http.max_inflight: 9 is less"}},
		{"all at once", settings.HTTP{Listen: "x", Tokens: bad, Hosts: []string{"http://a/"}}, []string{"not host:port", "not a role", "http.hosts"}},
	} {
		g, err := New(Config{HTTP: c.http})
		if len(c.want) == 0 {
			if err != nil || g == nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		for _, w := range c.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v does not say %q", c.name, err, w)
			}
		}
	}
}

func TestPanics(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{}, []Route{
		{Method: "GET", Pattern: "/before", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("early fault") })},
		{Method: "GET", Pattern: "/after", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			send(w, "half")
			w.(http.Flusher).Flush()
			panic("late fault")
		})},
		{Method: "GET", Pattern: "/abort", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })},
	})
	s.want(t, 500, "internal", "GET", "/before", "")
	a, err := s.client.Get(s.url + "/after")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(a.Body); err == nil {
		t.Errorf("half an answer looks like a whole one: %q", text)
	}
	a.Body.Close()
	if a, err := s.client.Get(s.url + "/abort"); err == nil {
		a.Body.Close()
		t.Error("an aborted request has an answer")
	}
	eventually(t, "both faults are logged", func() bool {
		text := s.log.String()
		return strings.Contains(text, "early fault") && strings.Contains(text, "late fault") && strings.Contains(text, "server_test.go")
	})
	if text := s.log.String(); strings.Contains(text, "abort Handler") {
		t.Error("an abort on purpose is logged:", text)
	}
}

func TestProbes(t *testing.T) {
	t.Parallel()
	g, err := New(Config{Probes: settings.Probes{Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := g.ListenProbes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := g.Server(g.WrapProbes(testRoutes(), nil))
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(l) }) // ends by Close below
	s := &served{url: "http://" + l.Addr().String(), address: l.Addr().String(), client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	s.want(t, 200, "", "GET", "/livez", "", "Host", "10.0.0.7:9000")
	s.want(t, 200, "", "GET", "/v1/jobs/1", "", "Host", "10.0.0.7:9000")
	s.want(t, 403, "forbidden", "POST", "/v1/jobs", "x")
	s.want(t, 403, "forbidden", "DELETE", "/v1/jobs/1", "")
	s.want(t, 413, "too-large", "GET", "/livez", "a body")
	server.Close()
	done.Wait()
}
