package access

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// blank is a ResponseWriter that keeps nothing.
type blank struct{ header http.Header }

func (b *blank) Header() http.Header              { return b.header }
func (b *blank) Write(p []byte) (int, error)      { return len(p), nil }
func (b *blank) WriteHeader(int)                  {}
func (b *blank) SetReadDeadline(time.Time) error  { return nil }
func (b *blank) SetWriteDeadline(time.Time) error { return nil }

// fixed is a body that can be read again and again.
type fixed struct {
	text string
	at   int
}

func (f *fixed) Read(p []byte) (int, error) {
	n := copy(p, f.text[f.at:])
	if f.at += n; f.at == len(f.text) {
		return n, io.EOF
	}
	return n, nil
}
func (f *fixed) Close() error { return nil }

// BenchmarkControl is the cost of all checks, without the server's own.
func BenchmarkControl(b *testing.B) {
	file := filepath.Join(b.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("read a "+readToken+"\nsubmit b "+submitToken+"\nadmin c "+adminToken+"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		http settings.HTTP
		body string
		bare bool
	}{
		{"bare mux", settings.HTTP{}, "", true},
		{"get", settings.HTTP{}, "", false},
		{"post 100 B", settings.HTTP{}, strings.Repeat("x", 100), false},
		{"post, tokens, rate", settings.HTTP{Tokens: file, Rate: 1e9}, strings.Repeat("x", 100), false},
	} {
		b.Run(c.name, func(b *testing.B) {
			g, err := New(Config{HTTP: c.http})
			if err != nil {
				b.Fatal(err)
			}
			buffer := make([]byte, 512)
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for {
					if _, err := r.Body.Read(buffer); err != nil {
						break
					}
				}
				w.WriteHeader(http.StatusOK)
				send(w, "0123456789")
			})
			h := g.Wrap([]Route{{Method: "POST", Pattern: "/v1/pools/{pool}/jobs", Role: Submit, Handler: handler}}, nil)
			if c.bare {
				mux := http.NewServeMux()
				mux.Handle("POST /v1/pools/{pool}/jobs", handler)
				h = mux
			}
			r := httptest.NewRequest(http.MethodPost, "/v1/pools/a/jobs", nil)
			r.Host, r.RemoteAddr = "127.0.0.1:8650", "127.0.0.1:5555"
			r.Header.Set("Authorization", "Bearer "+submitToken)
			w, text := &blank{header: http.Header{}}, &fixed{text: c.body}
			b.ReportAllocs()
			for b.Loop() {
				if c.body != "" {
					text.at = 0
					r.Body, r.ContentLength = text, int64(len(c.body))
				}
				h.ServeHTTP(w, r)
			}
		})
	}
}

// BenchmarkServer is a request over loopback, by one client that keeps its
// connection: with a plain server, and with all bounds.
func BenchmarkServer(b *testing.B) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		skip(r.Body)
		send(w, "0123456789")
	})
	for _, protected := range []bool{false, true} {
		b.Run(map[bool]string{false: "bare", true: "protected"}[protected], func(b *testing.B) {
			g, err := New(Config{HTTP: settings.HTTP{Listen: "127.0.0.1:0"}})
			if err != nil {
				b.Fatal(err)
			}
			server, l := g.Server(g.Wrap([]Route{{Method: "POST", Pattern: "/jobs", Role: Submit, Handler: handler}}, nil)), net.Listener(nil)
			if l, err = g.Listen(b.Context()); err != nil {
				b.Fatal(err)
			}
			if !protected {
				mux := http.NewServeMux()
				mux.Handle("POST /jobs", handler)
				server, l = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}, l.(*listener).Listener
			}
			var done sync.WaitGroup
			done.Go(func() { _ = server.Serve(l) }) // ends by Close below
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			request := []byte("POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n0123456789")
			answer := make([]byte, 4096)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(request); err != nil {
					b.Fatal(err)
				}
				if n, err := c.Read(answer); err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 200")) {
					b.Fatalf("%q %v", answer[:n], err)
				}
			}
			c.Close()
			server.Close()
			done.Wait()
		})
	}
}
