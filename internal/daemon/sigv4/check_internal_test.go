package sigv4

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	exampleID     = "AKIDEXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// keysOf returns the keys of a file with a text.
func keysOf(t testing.TB, text string) *Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k := New(path)
	if err := k.Load(); err != nil {
		t.Fatal(err)
	}
	return k
}

var exampleTime = time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)

// example is a request of AWS's test suite of signatures.
func example(method, target, body, signed, signature string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "example.amazonaws.com"
	r.Header.Set("X-Amz-Date", "20150830T123600Z")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/20150830/us-east-1/service/aws4_request, SignedHeaders=%s, Signature=%s", exampleID, signed, signature))
	return r
}

// The signatures are those of AWS's test suite.
func TestExamples(t *testing.T) {
	t.Parallel()
	keys := keysOf(t, exampleID+" "+exampleSecret)
	of := Scope{"us-east-1", "service"}
	for name, r := range map[string]*http.Request{
		"get-vanilla":                example("GET", "/", "", "host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
		"post-vanilla":               example("POST", "/", "", "host;x-amz-date", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
		"get-vanilla-query-order":    example("GET", "/?Param2=value2&Param1=value1", "", "host;x-amz-date", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"),
		"get-header-value-trim":      example("GET", "/", "", "host;my-header1;my-header2;x-amz-date", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736", "My-Header1", "value1", "My-Header2", `"a   b   c"`),
		"post-x-www-form-urlencoded": example("POST", "/", "Param1=value1", "content-type;host;x-amz-date", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a", "Content-Type", "application/x-www-form-urlencoded"),
	} {
		body := new(bytes.Buffer)
		if _, err := body.ReadFrom(r.Body); err != nil {
			t.Fatal(err)
		}
		s, bad := keys.Begin(r, of, exampleTime, nil)
		if bad == nil {
			bad = s.Check(body.Bytes())
		}
		if bad != nil {
			t.Errorf("%s: %v", name, bad)
			continue
		}
		if bad := s.Check(append(body.Bytes(), 'x')); bad == nil {
			t.Errorf("%s: another body has the same signature", name)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	keys := keysOf(t, exampleID+" "+exampleSecret)
	const good = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
	for name, c := range map[string]struct {
		change func(*http.Request)
		of     Scope
		at     time.Time
		kind   string
		status int
	}{
		"no header":      {change: func(r *http.Request) { r.Header.Del("Authorization") }, kind: missing, status: 403},
		"two headers":    {change: func(r *http.Request) { r.Header.Add("Authorization", "x") }, kind: incomplete, status: 400},
		"a token":        {change: func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, kind: incomplete, status: 400},
		"unknown key":    {change: replace(exampleID, "AKIDOTHER"), kind: unknown, status: 403},
		"other service":  {of: Scope{"", "lambda"}, kind: invalid, status: 403},
		"other region":   {of: Scope{"eu-west-1", "service"}, kind: invalid, status: 403},
		"late":           {at: exampleTime.Add(skew + time.Second), kind: invalid, status: 403},
		"early":          {at: exampleTime.Add(-skew - time.Second), kind: invalid, status: 403},
		"other date":     {change: replace("/20150830/", "/20150831/"), kind: invalid, status: 403},
		"no date":        {change: func(r *http.Request) { r.Header.Del("X-Amz-Date") }, kind: incomplete, status: 400},
		"unsigned date":  {change: replace("host;x-amz-date", "host"), kind: incomplete, status: 400},
		"unsigned host":  {change: replace("host;x-amz-date", "x-amz-date"), kind: invalid, status: 403},
		"unsigned type":  {change: func(r *http.Request) { r.Header.Set("X-Amz-Invocation-Type", "Event") }, kind: invalid, status: 403},
		"other host":     {change: func(r *http.Request) { r.Host = "example.com" }, kind: invalid, status: 403},
		"other path":     {change: func(r *http.Request) { r.URL.Path = "/x" }, kind: invalid, status: 403},
		"other query":    {change: func(r *http.Request) { r.URL.RawQuery = "a=b" }, kind: invalid, status: 403},
		"other method":   {change: func(r *http.Request) { r.Method = "PUT" }, kind: invalid, status: 403},
		"short":          {change: replace(good, "00"), kind: incomplete, status: 400},
		"not hex":        {change: replace(good, strings.Repeat("g", 64)), kind: incomplete, status: 400},
		"changed":        {change: replace(good, strings.Repeat("0", 64)), kind: invalid, status: 403},
		"no credential":  {change: replace("Credential=", "Cred="), kind: incomplete, status: 400},
		"no scope":       {change: replace("/aws4_request", ""), kind: incomplete, status: 400},
		"twice":          {change: replace("Credential=", "Signature="+good+", Credential="), kind: incomplete, status: 400},
		"unsorted names": {change: replace("host;x-amz-date", "x-amz-date;host"), kind: incomplete, status: 400},
	} {
		r := example("POST", "/", "", "host;x-amz-date", good)
		if c.change != nil {
			c.change(r)
		}
		if c.of.Service == "" {
			c.of = Scope{"us-east-1", "service"}
		}
		if c.at.IsZero() {
			c.at = exampleTime
		}
		s, bad := keys.Begin(r, c.of, c.at, []string{"X-Amz-Invocation-Type"})
		if bad == nil {
			bad = s.Check(nil)
		}
		if bad == nil || bad.Type != c.kind || bad.Status != c.status {
			t.Errorf("%s: %v, want %s", name, bad, c.kind)
		}
	}
}

// replace replaces a part of the header Authorization.
func replace(part, by string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), part, by, 1))
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                "there is no key",
		"# only a comment\n":              "there is no key",
		"AKID":                            "line 1: it has 1 words",
		"AKID " + exampleSecret + " more": "line 1: it has 3 words",
		"A-K " + exampleSecret:            "not a valid access key ID",
		"AKID short-secret":               "12 characters",
		"\nAKID " + exampleSecret + "\nAKID " + exampleSecret: "line 3: this access key ID",
	} {
		_, err := parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), exampleSecret) || strings.Contains(err.Error(), "short-secret") {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	all, err := parse([]byte("\xef\xbb\xbf# ours\nAKID1 " + exampleSecret + "\r\n\nAKID2\tsixteen-letters-\n"))
	if err != nil || len(all) != 2 || all["AKID1"] != exampleSecret || all["AKID2"] != "sixteen-letters-" {
		t.Errorf("%v, %v", all, err)
	}
}

// TestLoadAgain shows that keys change with their file, but not by one with faults.
func TestLoadAgain(t *testing.T) {
	t.Parallel()
	keys := keysOf(t, "OLD "+exampleSecret)
	has := func(id string) bool { return (*keys.secrets.Load())[id] != "" }
	for _, c := range []struct {
		text, id string
		fails    bool
	}{{"NEW " + exampleSecret, "NEW", false}, {"NEWER", "NEW", true}} {
		if err := os.WriteFile(keys.path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := keys.Load(); (err != nil) != c.fails || !has(c.id) || has("OLD") {
			t.Errorf("%q: %v, %v", c.text, err, *keys.secrets.Load())
		}
	}
	if err := CheckFile(keys.path); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Error(err)
	}
}

// FuzzHeader shows that every accepted header is complete.
func FuzzHeader(f *testing.F) {
	f.Add(example("GET", "/", "", "host;x-amz-date", strings.Repeat("0", 64)).Header.Get("Authorization"))
	f.Add("AWS4-HMAC-SHA256 Credential=a/b/c/d/aws4_request,SignedHeaders=a,Signature=00")
	f.Add("AWS4-HMAC-SHA256")
	f.Fuzz(func(t *testing.T, header string) {
		a, bad := parseHeader(header)
		if bad != nil {
			if bad.Type != incomplete || bad.Message == "" {
				t.Errorf("%q: %v", header, bad)
			}
			return
		}
		if a.key == "" || a.date == "" || a.region == "" || a.service == "" || len(a.signed) == 0 || len(a.signature) != 32 {
			t.Errorf("%q: %+v", header, a)
		}
	})
}

// FuzzCanonical shows that no path and query makes a request that cannot be signed, and
// that the canonical form has no bytes of theirs that could be mistaken for its own.
func FuzzCanonical(f *testing.F) {
	f.Add("/a%2Fb/c", "q=%24LATEST&a-b=1&a=2")
	f.Add("/", "&&==&%zz")
	f.Fuzz(func(t *testing.T, path, query string) {
		r := example("GET", "/", "", "host", "")
		r.URL.Path, r.URL.RawQuery = path, query
		s := &Request{authorization: authorization{signed: []string{"host"}}, request: r}
		lines := strings.Split(string(s.canonical([32]byte{})), "\n")
		if len(lines) != 7 || lines[6] != hex.EncodeToString(make([]byte, 32)) {
			t.Errorf("%q", lines)
		}
	})
}
