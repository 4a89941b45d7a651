package access

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// TestListenLambda shows on which addresses the Lambda front may listen.
func TestListenLambda(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cert, key := writePair(t, folder, 1)
	for _, c := range []struct {
		listen    string
		tls, keys bool
		refused   bool
	}{
		{"127.0.0.1:0", false, false, false},
		{"127.0.0.1:0", true, true, false},
		{"0.0.0.0:0", true, true, false},
		{"0.0.0.0:0", true, false, true},
		{"0.0.0.0:0", false, true, true},
	} {
		s := Config{HTTP: settings.HTTP{Listen: "127.0.0.1:0"}, Lambda: settings.Lambda{Listen: c.listen}}
		if c.tls {
			s.HTTP.Cert, s.HTTP.Key = cert, key
		}
		if c.keys {
			s.Lambda.Keys = "keys"
		}
		g, err := New(s)
		if err != nil {
			t.Fatal(err)
		}
		l, err := g.ListenLambda(t.Context())
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "set http.tls and lambda.keys") {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			_ = l.Close()
		}
	}
}

// TestWrapLambda shows that callers need no token, and that all refusals have the form
// of the front.
func TestWrapLambda(t *testing.T) {
	t.Parallel()
	tokens := writeFile(t, filepath.Join(t.TempDir(), "tokens"), "admin a "+adminToken)
	g, err := New(Config{HTTP: settings.HTTP{Tokens: tokens, MaxBody: 10}})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w http.ResponseWriter, p *problem.Problem) {
		w.Header().Set("X-Cause", string(p.Cause))
		w.WriteHeader(p.Status)
	}
	routes := []Route{
		{Method: "POST", Pattern: "/echo", Role: Submit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := ReadBody(r, 100)
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			send(w, RoleOf(r.Context()).String()+" "+string(body))
		})},
		{Method: "POST", Pattern: "/panic", Role: Submit, Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("at the disco") })},
	}
	h := g.WrapLambda(routes, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }), answer)
	ask := func(path, body, host string, length int64) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		r.Host, r.ContentLength = host, length
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := ask("/echo", "hello", "localhost", 5); w.Code != http.StatusOK || w.Body.String() != "submit hello" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, c := range []struct {
		path, body, host string
		length           int64
		status           int
		cause            problem.Cause
	}{
		{"/echo", "hello", "evil.example.com", 5, http.StatusForbidden, problem.Forbidden},
		{"/echo", strings.Repeat("x", 11), "localhost", 11, http.StatusRequestEntityTooLarge, problem.TooLarge},
		{"/echo", strings.Repeat("x", 11), "localhost", -1, http.StatusRequestEntityTooLarge, problem.TooLarge},
		{"/panic", "", "localhost", 0, http.StatusInternalServerError, problem.Internal},
		{"/none", "", "localhost", 0, http.StatusTeapot, ""},
	} {
		if w := ask(c.path, c.body, c.host, c.length); w.Code != c.status || w.Header().Get("X-Cause") != string(c.cause) || strings.Contains(w.Header().Get("Content-Type"), "problem") {
			t.Errorf("%+v: %d %v", c, w.Code, w.Header())
		}
	}
}

// TestWatch shows that a file is read at the start, and again when it has changed.
func TestWatch(t *testing.T) {
	t.Parallel()
	path := writeFile(t, filepath.Join(t.TempDir(), "keys"), "one")
	var seen atomic.Value
	load := func() error {
		text, err := os.ReadFile(path)
		seen.Store(string(text))
		return err
	}
	serve(t, Config{Times: Times{Look: time.Millisecond}, Watch: []Watch{{Name: "keys", Path: path, Load: load}}}, testRoutes())
	if seen.Load() != "one" {
		t.Errorf("at the start: %v", seen.Load())
	}
	writeFile(t, path, "another")
	eventually(t, "the file is read again", func() bool { return seen.Load() == "another" })
	bad := func() error { return errors.New("it is bad") }
	if _, err := New(Config{Watch: []Watch{{Name: "keys", Path: path, Load: bad}}}); err == nil || err.Error() != "it is bad" {
		t.Errorf("a bad file: %v", err)
	}
}

// TestRefusals shows that the answers to connections without a place are whole.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]string{apiRefusal: "", lambdaRefusal: "TooManyRequestsException"} {
		a, err := answer(strings.NewReader(text))
		if err != nil || a.status != http.StatusTooManyRequests || !a.closes || a.header.Get("X-Amzn-ErrorType") != kind || !json.Valid([]byte(a.text)) {
			t.Errorf("%+v, %v", a, err)
		}
	}
}
