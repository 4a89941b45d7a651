package access

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// hostCases are Host headers, and whether they are allowed without names of our
// own and with "pen.example" and "other.example:8443".
var hostCases = []struct {
	host         string
	plain, named bool
}{
	{"localhost", true, true},
	{"LocalHost:1", true, true},
	{"127.0.0.1:8650", true, true},
	{"127.200.3.4:8650", true, true},
	{"[::1]", true, true},
	{"[::1]:8650", true, true},
	{"pen.example", false, true},
	{"PEN.example:99", false, true},
	{"other.example:8443", false, true},
	{"other.example:8444", false, false},
	{"other.example", false, false},
	{"", false, false},
	{"evil.example", false, false},
	{"evil.example:8650", false, false},
	{"localhost.evil.example", false, false},
	{"127.0.0.1.evil.example", false, false},
	{"127.0.0.1@evil.example", false, false},
	{"localhost:80:90", false, false},
	{"localhost:", false, false},
	{"localhost:abc", false, false},
	{"[::1", false, false},
	{"[::1]x", false, false},
	{"[evil.example]", false, false},
	{"[127.0.0.1]", false, false},
	{"::1", false, false},
	{"0.0.0.0:8650", false, false},
	{"[::]:8650", false, false},
	{"2130706433", false, false},
	{"127.1", false, false},
	{"0x7f.0.0.1", false, false},
	{"10.0.0.1", false, false},
	{"localhost\x00", false, false},
	{"localhost ", false, false},
}

func TestHosts(t *testing.T) {
	t.Parallel()
	plain, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	named, err := New(Config{HTTP: settings.HTTP{Hosts: []string{"pen.example", "other.example:8443"}}})
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "tokens"), "admin me 0123456789abcdef\n")
	free, err := New(Config{HTTP: settings.HTTP{Tokens: file}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range hostCases {
		if got := plain.checkHost(c.host, false) == ""; got != c.plain {
			t.Errorf("%q is allowed: %v", c.host, got)
		}
		if got := named.checkHost(c.host, false) == ""; got != c.named {
			t.Errorf("with names, %q is allowed: %v", c.host, got)
		}
		if says := free.checkHost(c.host, true); says != "" {
			t.Errorf("with tokens and no names, %q is refused: %s", c.host, says)
		}
	}
}

// TestBrowsers sends what browsers send for pages of others.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{}, testRoutes())
	own := s.url
	for _, c := range []struct {
		name, method, path string
		allowed            bool
		headers            []string
	}{
		{"a program", "POST", "/v1/jobs", true, nil},
		{"own page", "POST", "/v1/jobs", true, []string{"Origin", own, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}},
		{"own page reads", "GET", "/v1/jobs/1", true, []string{"Sec-Fetch-Site", "same-origin"}},
		{"typed address", "GET", "/v1/jobs/1", true, []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		{"link from another page", "GET", "/v1/jobs/1", true, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		{"DNS rebinding", "POST", "/v1/jobs", false, []string{"Host", "evil.example:8650", "Origin", "http://evil.example:8650", "Sec-Fetch-Site", "same-origin"}},
		{"DNS rebinding, read", "GET", "/v1/jobs/1", false, []string{"Host", "evil.example", "Sec-Fetch-Site", "same-origin"}},
		{"form", "POST", "/v1/jobs", false, []string{"Origin", "http://evil.example", "Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		{"form of plain text, old browser", "POST", "/v1/jobs", false, []string{"Origin", "http://evil.example", "Content-Type", "text/plain"}},
		{"form with hidden origin", "POST", "/v1/jobs", false, []string{"Origin", "null", "Content-Type", "text/plain"}},
		{"form without Origin", "POST", "/v1/jobs", false, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		{"fetch, no-cors", "POST", "/v1/jobs", false, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty"}},
		{"fetch, no-cors, read", "GET", "/v1/jobs/1", false, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty"}},
		{"fetch, cors, read", "GET", "/v1/jobs/1", false, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}},
		{"image", "GET", "/v1/jobs/1", false, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}},
		{"frame", "GET", "/v1/jobs/1", false, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}},
		{"another port of this machine", "POST", "/v1/jobs", false, []string{"Origin", "http://127.0.0.1:3000", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}},
		{"another port, no-cors", "GET", "/v1/jobs/1", false, []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"}},
		{"other scheme", "POST", "/v1/jobs", false, []string{"Origin", "https://" + s.address}},
		{"extension", "POST", "/v1/jobs", false, []string{"Origin", "chrome-extension://abcdefghijklmnop", "Sec-Fetch-Site", "none"}},
		{"file", "POST", "/v1/jobs", false, []string{"Origin", "file://", "Sec-Fetch-Site", "cross-site"}},
		{"empty Origin", "POST", "/v1/jobs", false, []string{"Origin", ""}},
		{"two Origins", "POST", "/v1/jobs", false, []string{"Origin", own, "Origin", "http://evil.example"}},
		{"two sites", "POST", "/v1/jobs", false, []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"}},
		{"unknown site", "POST", "/v1/jobs", false, []string{"Sec-Fetch-Site", "elsewhere"}},
		{"websocket", "GET", "/v1/jobs/1", false, []string{"Origin", "http://evil.example", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "websocket"}},
		{"delete by fetch", "DELETE", "/v1/jobs/1", false, []string{"Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}},
		{"preflight", "OPTIONS", "/v1/jobs", false, []string{"Origin", "http://evil.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Private-Network", "true", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}},
		{"probe by image", "GET", "/livez", false, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}},
	} {
		status, header, text := s.do(t, c.method, c.path, "", c.headers...)
		if c.allowed && status != 200 || !c.allowed && (status != 403 || !strings.Contains(text, `"cause":"forbidden"`)) {
			t.Errorf("%s: status %d, allowed should be %v: %s", c.name, status, c.allowed, text)
		}
		for name := range header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: the answer has %s", c.name, name)
			}
		}
	}
	if status, h, _ := s.do(t, "GET", "/v1/jobs/1", "", "Sec-Fetch-Site", "same-origin"); status != 200 || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
		t.Errorf("a page gets %d and %v", status, h)
	}
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	open, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "tokens"), "admin me 0123456789abcdef\n")
	closed, err := New(Config{HTTP: settings.HTTP{Tokens: file}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		control      *Control
		origin, host string
		secure, want bool
	}{
		{open, "http://localhost:8650", "localhost:8650", false, true},
		{open, "http://LOCALHOST:8650", "localhost:8650", false, true},
		{open, "http://localhost", "localhost:80", false, true},
		{open, "http://localhost:8650", "127.0.0.1:8650", false, false},
		{open, "http://localhost:8650", "localhost:8651", false, false},
		{open, "https://localhost:8650", "localhost:8650", false, false},
		{open, "https://localhost:8650", "localhost:8650", true, true},
		{open, "https://localhost", "localhost", true, true},
		{open, "http://localhost", "localhost", true, false},
		{open, "http://localhost:8650/", "localhost:8650", false, false},
		{open, "http://a@localhost:8650", "localhost:8650", false, false},
		{open, "http://", "", false, false},
		{open, "null", "null", false, false},
		{closed, "https://pen.example", "pen.example", false, true}, // behind what ends TLS
		{closed, "https://evil.example", "pen.example", false, false},
		{closed, "null", "pen.example", false, false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Host = c.host
		if c.secure {
			r.TLS = &tls.ConnectionState{}
		}
		if got := sameOrigin(c.origin, r, c.control.tokens != nil); got != c.want {
			t.Errorf("%q for %q (TLS %v): %v", c.origin, c.host, c.secure, got)
		}
	}
}

func TestClientAddress(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:99":            "192.0.2.1",
		"[::ffff:192.0.2.1]:99":   "192.0.2.1",
		"[2001:db8:1:2:3::4]:99":  "2001:db8:1:2::",
		"[fe80::1%eth0]:99":       "fe80::",
		"[::1]:99":                "::1",
		"@":                       "invalid IP",
		"":                        "invalid IP",
		"a.name.of.something:123": "invalid IP",
	} {
		if got := clientAddress(remote).String(); got != want {
			t.Errorf("%q is %s, want %s", remote, got, want)
		}
	}
	if _, err := netip.ParseAddr(clientAddress("192.0.2.1:1").String()); err != nil {
		t.Error(err)
	}
}

// FuzzOrigin looks for a Host or Origin that is taken for ours and is not.
func FuzzOrigin(f *testing.F) {
	for _, s := range []string{"localhost:1", "127.0.0.1", "[::1]:8650", "evil.example", "localhost@evil", "[::1]evil", "0", ":", "[", "xn--localhost", "127.0.0.1%00", "ſ", "LOCALHOST"} {
		f.Add(s, "http://"+s)
	}
	g, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, origin string) {
		r := &http.Request{Method: http.MethodPost, Host: name, Header: http.Header{"Origin": {origin}}}
		if g.checkHost(name, false) == "" {
			bare := strings.ToLower(name)
			if i := strings.LastIndexByte(bare, ':'); i >= 0 && !strings.HasSuffix(bare, "]") {
				bare = bare[:i]
			}
			bare = strings.Trim(bare, "[]")
			a, err := netip.ParseAddr(bare)
			if bare != "localhost" && (err != nil || !a.IsLoopback()) {
				t.Errorf("host %q is allowed", name)
			}
		}
		if g.checkOrigin(r, false) == "" && !strings.HasPrefix(strings.ToLower(origin), "http://"+strings.TrimSuffix(strings.ToLower(name), ":80")) {
			t.Errorf("origin %q is allowed for %q", origin, name)
		}
	})
}
