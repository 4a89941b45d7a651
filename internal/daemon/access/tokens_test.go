package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/secretfile"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

const (
	readToken   = "reader-0123456789abcdef"
	submitToken = "submitter-0123456789abcdef"
	adminToken  = "admin-0123456789abcdef"
	wrongToken  = "wrong-0123456789abcdef"
)

func digestOf(s string) string {
	d := sha256.Sum256([]byte(s))
	return hex.EncodeToString(d[:])
}

// tokenFile writes a file with a token for each role.
func tokenFile(t *testing.T) string {
	t.Helper()
	return writeFile(t, filepath.Join(t.TempDir(), "tokens"), "# who may do what\n\nread dash "+readToken+
		"\nsubmit ci\tsha256:"+strings.ToUpper(digestOf(submitToken))+"\r\n  admin ops "+adminToken+"\n")
}

func TestParseTokens(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef"
	for _, c := range []struct {
		name, text string
		count      int
		want       []string // faults
	}{
		{"one", "admin me " + secret, 1, nil},
		{"byte order mark", "\ufeffadmin me " + secret, 1, nil},
		{"same name twice, for rotation", "read a " + secret + "\nread a " + secret + "x\n", 2, nil},
		{"empty", "", 0, []string{"no token in it"}},
		{"comments only", "# admin me " + secret + "\n", 0, []string{"no token in it"}},
		{"words", "admin " + secret + "\nadmin me " + secret + " more", 0, []string{"line 1: it has 2 words", "line 2: it has 4 words"}},
		{"role", "root me " + secret, 0, []string{"line 1: the first word is not a role"}},
		{"name", "read a/b " + secret + "\nread " + strings.Repeat("a", 65) + " " + secret, 0, []string{"line 1: the second word", "line 2: the second word"}},
		{"short", "\n\nread a 0123456789abcde", 0, []string{"line 3: the token has 15 characters"}},
		{"long", "read a " + strings.Repeat("x", 513), 0, []string{"513 characters"}},
		{"characters", "read a 0123456789abcdefé", 0, []string{"not allowed in a header"}},
		{"digest", "read a sha256:" + secret, 0, []string{"64 hexadecimal"}},
		{"twice", "read a " + secret + "\nadmin b sha256:" + digestOf(secret), 0, []string{"line 2: this token is already on line 1"}},
		{"words in wrong order", secret + " me admin", 0, []string{"not a role", "5 characters"}},
		{"many", strings.Repeat("x\n", 3), 0, []string{"line 1", "line 2", "line 3"}},
	} {
		all, err := parseTokens([]byte(c.text))
		if len(c.want) == 0 && (err != nil || len(all) != c.count) {
			t.Errorf("%s: %d tokens, %v", c.name, len(all), err)
		}
		for _, w := range c.want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v does not say %q", c.name, err, w)
			}
		}
		if err != nil && strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%s: the error shows a token: %v", c.name, err)
		}
	}
	var lines strings.Builder
	for i := range maxTokens + 1 {
		fmt.Fprintf(&lines, "read a token-%016d\n", i)
	}
	if _, err := parseTokens([]byte(lines.String())); err == nil || !strings.Contains(err.Error(), "more than 1000") {
		t.Errorf("too many tokens: %v", err)
	}
}

func TestTokenFileAccess(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	open := filepath.Join(folder, "open")
	if err := os.WriteFile(open, []byte("admin me "+adminToken), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(folder, "mounted")
	if err := os.WriteFile(mounted, []byte("admin me "+adminToken), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(mounted, 0o440); err != nil {
		t.Fatal(err)
	}
	if _, err := secretfile.Read(mounted, maxTokenFile); err != nil {
		t.Errorf("a file for a group: %v", err)
	}
	large := writeFile(t, filepath.Join(folder, "large"), strings.Repeat("#\n", maxTokenFile))
	for path, want := range map[string]string{
		open:                            "chmod 600 " + open,
		filepath.Join(folder, "absent"): "no such file",
		folder:                          "not a regular file",
		large:                           "larger than",
	} {
		if runtime.GOOS == "windows" && path != large {
			continue // modes and messages are others there
		}
		if _, err := New(Config{HTTP: settings.HTTP{Tokens: path}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{HTTP: settings.HTTP{Tokens: tokenFile(t)}}, testRoutes())
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	for _, c := range []struct {
		name         string
		method, path string
		headers      []string
		status       int
	}{
		{"nobody needs a token to see it live", "GET", "/livez", nil, 200},
		{"none", "GET", "/v1/jobs/1", nil, 401},
		{"none, unknown path", "GET", "/nothing", nil, 401},
		{"read", "GET", "/v1/jobs/1", bearer(readToken), 200},
		{"digest", "GET", "/v1/jobs/1", bearer(submitToken), 200},
		{"admin", "GET", "/v1/jobs/1", bearer(adminToken), 200},
		{"read is not submit", "POST", "/v1/jobs", bearer(readToken), 403},
		{"submit", "POST", "/v1/jobs", bearer(submitToken), 200},
		{"submit is not admin", "DELETE", "/v1/jobs/1", bearer(submitToken), 403},
		{"admin deletes", "DELETE", "/v1/jobs/1", bearer(adminToken), 200},
		{"scheme in other case", "GET", "/v1/jobs/1", []string{"Authorization", "bEARER  " + readToken}, 200},
		{"other scheme", "GET", "/v1/jobs/1", []string{"Authorization", "Basic " + readToken}, 401},
		{"no scheme", "GET", "/v1/jobs/1", []string{"Authorization", readToken}, 401},
		{"the digest is no token", "GET", "/v1/jobs/1", bearer("sha256:" + digestOf(submitToken)), 401},
		{"two headers", "GET", "/v1/jobs/1", append(bearer(readToken), bearer(adminToken)...), 401},
		{"a part", "GET", "/v1/jobs/1", bearer(readToken[:16]), 401},
		{"too long", "GET", "/v1/jobs/1", bearer(strings.Repeat("x", 600)), 401},
		{"in the query", "GET", "/v1/jobs/1?token=" + adminToken + "&access_token=" + adminToken, nil, 401},
		{"unknown path", "GET", "/nothing", bearer(readToken), 404},
	} {
		status, h, text := s.do(t, c.method, c.path, "", c.headers...)
		if status != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.name, status, c.status, text)
		}
		if auth := h.Get("WWW-Authenticate"); (status == 401) != strings.HasPrefix(auth, "Bearer") && status != 403 {
			t.Errorf("%s: status %d with WWW-Authenticate %q", c.name, status, auth)
		}
		if status == 403 && !strings.Contains(text, "needs the role ") {
			t.Errorf("%s: the answer does not name the role: %s", c.name, text)
		}
	}
}

func TestFailedTries(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{HTTP: settings.HTTP{Tokens: tokenFile(t)}}, testRoutes())
	read := func(token string, status int, cause string) {
		t.Helper()
		s.want(t, status, cause, "GET", "/v1/jobs/1", "", "Authorization", "Bearer "+token)
	}
	read(readToken, 200, "")
	for range failedTries {
		read(wrongToken, 401, "unauthorized")
	}
	for range 100 {
		read(wrongToken, 429, "rate")
	}
	read(readToken, 200, "") // others at this address have nothing to do with it
	read(adminToken, 200, "")
	s.want(t, 200, "", "GET", "/livez", "") // who has no token has not tried
	if n := strings.Count(s.log.String(), "is blocked for a while"); n != 1 {
		t.Errorf("it was logged %d times", n)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	path := tokenFile(t)
	s := serve(t, Config{HTTP: settings.HTTP{Tokens: path}, Times: Times{Look: 20 * time.Millisecond}}, testRoutes())
	status := func(token string) int {
		got, _, _ := s.do(t, "GET", "/v1/jobs/1", "", "Authorization", "Bearer "+token)
		return got
	}
	if got := status(readToken); got != 200 {
		t.Fatal("status", got)
	}
	writeFile(t, path, "read dash "+readToken+"\nread dash next-0123456789abcdef\n")
	eventually(t, "the new file is in use", func() bool { return strings.Contains(s.log.String(), "now in use") })
	for token, want := range map[string]int{readToken: 200, "next-0123456789abcdef": 200, adminToken: 401} {
		if got := status(token); got != want {
			t.Errorf("status %d, want %d", got, want)
		}
	}
	writeFile(t, path, "read dash\nnobody x "+wrongToken+"\n")
	eventually(t, "the faulty file is reported", func() bool { return strings.Contains(s.log.String(), "the old content stays in use") })
	if got := status(readToken); got != 200 {
		t.Error("the old tokens are gone: status", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loss is logged", func() bool { return strings.Contains(s.log.String(), "all tokens have ended") })
	if got := status(readToken); got != 401 {
		t.Error("a token whose file is gone is still good: status", got)
	}
	writeFile(t, path, "read dash other-0123456789abcdef\n")
	eventually(t, "the next ones are in use", func() bool { return strings.Count(s.log.String(), "now in use") == 2 })
	if got := status("other-0123456789abcdef"); got != 200 {
		t.Error("the new token: status", got)
	}
	writeFile(t, path, "# taken back\n")
	eventually(t, "the end is logged", func() bool { return strings.Count(s.log.String(), "all tokens have ended") == 2 })
	if got := status("other-0123456789abcdef"); got != 401 {
		t.Error("a token that was taken back is still good: status", got)
	}
	if text := s.log.String(); strings.Contains(text, "0123456789abcdef") {
		t.Error("the log shows a token:", text)
	}
}

// TestFollowersEnd takes a token back while its caller follows something.
func TestFollowersEnd(t *testing.T) {
	t.Parallel()
	path := tokenFile(t)
	routes := append(testRoutes(), Route{Method: "GET", Pattern: "/v1/events", Role: Submit, Follows: true, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		send(w, "begun\n")
		http.NewResponseController(w).Flush() //nolint:errcheck // the reader would miss the line
		<-r.Context().Done()
	})})
	s := serve(t, Config{HTTP: settings.HTTP{Tokens: path}, Times: Times{Look: 20 * time.Millisecond}}, routes)
	follow := func(token string) (ended chan error) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := s.client.Do(req) //nolint:bodyclose // the goroutine below closes it
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v, want a stream", resp, err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, len("begun\n"))); err != nil {
			t.Fatal(err)
		}
		ended = make(chan error, 1)
		go func() { // ends with the answer, at the latest with the server
			defer resp.Body.Close()
			_, err := io.Copy(io.Discard, resp.Body)
			ended <- err
		}()
		return ended
	}
	writeFile(t, path, "submit a gone-0123456789abcdef\nsubmit dash "+submitToken+"\nadmin ops "+adminToken+"\n")
	eventually(t, "the file is in use", func() bool { return strings.Contains(s.log.String(), "now in use") })
	gone, lowered, stays := follow("gone-0123456789abcdef"), follow(submitToken), follow(adminToken)
	writeFile(t, path, "read dash "+submitToken+"\nadmin ops "+adminToken+"\n")
	for name, c := range map[string]chan error{"the token is gone": gone, "its role is less": lowered} {
		select {
		case err := <-c:
			if err != nil {
				t.Errorf("%s: %v, want an orderly end", name, err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it is followed still", name)
		}
	}
	writeFile(t, path, "submit ops "+adminToken+"\n")
	eventually(t, "the next file is in use", func() bool { return strings.Count(s.log.String(), "now in use") == 3 })
	select {
	case err := <-stays:
		t.Errorf("a token that may follow was ended: %v", err)
	default:
	}
	writeFile(t, path, "# taken back\n")
	if err := <-stays; err != nil {
		t.Error(err)
	}
}

// TestSecrets sends tokens through all paths and looks for them in the log and in
// the answers.
func TestSecrets(t *testing.T) {
	t.Parallel()
	routes := append(testRoutes(), Route{Method: "GET", Pattern: "/panic", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("fault") })})
	s := serve(t, Config{HTTP: settings.HTTP{Tokens: tokenFile(t), MaxBody: 100, Rate: 1000}}, routes)
	for _, token := range []string{readToken, submitToken, adminToken, wrongToken} {
		for _, scheme := range []string{"Bearer ", "Basic ", "", "bearer"} {
			for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS"} {
				for _, path := range []string{"/livez", "/v1/jobs/1", "/v1/jobs", "/nothing", "/panic", "//v1/jobs"} {
					_, h, text := s.do(t, method, path+"?token="+token, strings.Repeat("x", 101),
						"Authorization", scheme+token, "Cookie", "a="+token, "Origin", s.url)
					if h := fmt.Sprint(h); strings.Contains(text, "0123456789abcdef") || strings.Contains(h, "0123456789abcdef") && !strings.Contains(h, "Location") {
						t.Fatalf("%s %s: the answer shows a token: %v %s", method, path, h, text)
					}
				}
			}
		}
	}
	text := s.log.String()
	for _, secret := range []string{"0123456789abcdef", digestOf(adminToken), "Bearer "} {
		if strings.Contains(text, secret) {
			t.Errorf("the log shows %q", secret)
		}
	}
	if !strings.Contains(text, "caller=dash") || !strings.Contains(text, "role=read") {
		t.Error("the log does not say who called:", text[:min(len(text), 1000)])
	}
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	b := newBuckets(2, 4, 100)
	now := time.Unix(1000, 0)
	who := client{name: "me"}
	for range 4 {
		if _, ok := b.take(who, now); !ok {
			t.Fatal("the burst is refused")
		}
	}
	if wait, ok := b.take(who, now); ok || wait != 500*time.Millisecond {
		t.Errorf("over the burst: %v, %v", wait, ok)
	}
	if _, ok := b.take(client{name: "you"}, now); !ok {
		t.Error("one client's rate is another's")
	}
	if _, yes := b.spent(who, now); !yes {
		t.Error("nothing is left, and that is not logged")
	}
	now = now.Add(time.Second)
	for i, want := range []bool{true, true, false} {
		if _, ok := b.take(who, now); ok != want {
			t.Errorf("after a second, number %d: %v", i, ok)
		}
	}
	if _, ok := b.take(who, now.Add(-time.Hour)); ok {
		t.Error("a clock that goes back gives something")
	}
	for i := range 20_000 {
		b.take(client{name: fmt.Sprint(i)}, now)
	}
	if len(b.table) > 100 {
		t.Errorf("the table has %d clients, more than 100", len(b.table))
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{HTTP: settings.HTTP{Rate: 0.01}}, testRoutes())
	s.want(t, 200, "", "GET", "/v1/jobs/1", "")
	status, h, text := s.do(t, "GET", "/v1/jobs/1", "")
	if status != 429 || h.Get("Retry-After") != "100" || !strings.Contains(text, "http.rate") {
		t.Errorf("status %d, Retry-After %q: %s", status, h.Get("Retry-After"), text)
	}
	s.want(t, 200, "", "GET", "/livez", "") // probes have no rate
	tokens := serve(t, Config{HTTP: settings.HTTP{Rate: 0.01, Tokens: tokenFile(t)}}, testRoutes())
	for _, token := range []string{readToken, adminToken} { // each has a rate of its own
		tokens.want(t, 200, "", "GET", "/v1/jobs/1", "", "Authorization", "Bearer "+token)
		tokens.want(t, 429, "rate", "GET", "/v1/jobs/1", "", "Authorization", "Bearer "+token)
	}
}

// FuzzTokens looks for panics, for accepted nonsense and for errors that show what
// stands in the file.
func FuzzTokens(f *testing.F) {
	for _, s := range []string{"admin me " + adminToken, "read a sha256:" + digestOf(readToken), "# x\n\nsubmit b ", "\ufeff\r\n", "read\u00a0a\u20280123456789abcdef0", "x y z w"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseTokens([]byte(text))
		if err != nil {
			for word := range strings.FieldsSeq(text) {
				if len(word) >= leastTokenSize && strings.Contains(err.Error(), word) {
					t.Errorf("the error shows %q: %v", word, err)
				}
			}
			return
		}
		if len(all) == 0 {
			t.Error("a file without tokens is good")
		}
		for _, k := range all {
			if k.role < Read || k.role > Admin || !isTokenName(k.name) || k.digest == sha256.Sum256(nil) {
				t.Errorf("a token that is none: %v %q", k.role, k.name)
			}
		}
	})
}
