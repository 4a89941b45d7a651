package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

func TestLoneSurrogates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"plain"`: "", `"\u00e4"`: "", `"\ud83d\ude00"`: "", `"\uD83D\uDE00x"`: "", `"\\ud800"`: "", `"\ufffd"`: "",
		`"\ud800"`: `\ud800`, `"\uDC00"`: `\uDC00`, `"\ud800x"`: `\ud800`, `"\ud800\ud800"`: `\ud800`, `"\ud800\n"`: `\ud800`,
		`"\ude00\ud83d"`: `\ude00`, `"\\\ud801"`: `\ud801`, `"\ud83d\ude00\udbff"`: `\udbff`,
	} {
		if !json.Valid([]byte(text)) {
			t.Fatalf("%s is no JSON", text)
		}
		if got := loneSurrogate([]byte(text)); got != want {
			t.Errorf("loneSurrogate(%s) = %q, want %q", text, got, want)
		}
	}
}

// TestLoneSurrogatesAreRefused wants keys, metadata and payloads that would become
// others to be refused, each with what is wrong.
func TestLoneSurrogatesAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lines := []string{`{"key":"\ud800"}`, `{"meta":{"\udfff":"x"}}`, `{"payload":"\ud800"}`, `{"\ud800":1}`, `{"key":"\ud83d\ude00"}`}
	r := s.do("POST", "/v1/pools/main/bulk", strings.Join(lines, "\n"), "Content-Type", linesType)
	answers := strings.Split(strings.TrimSpace(r.body), "\n")
	if len(answers) != len(lines) {
		t.Fatalf("%d lines are answered with %s", len(lines), r.body)
	}
	for i, line := range lines {
		refused := strings.Contains(answers[i], "half of a character")
		if good := i == len(lines)-1; refused == good {
			t.Errorf("%s is answered with %s", line, answers[i])
		}
	}
	if p := isProblem(t, s.do("PUT", "/v1/schedules/s", `{"pool":"main","every":"1h","job":{"key":"\udc00"}}`, "Content-Type", "application/json"), problem.BadRequest); !strings.Contains(p.Detail, "half of a character") {
		t.Errorf("a schedule is answered with %+v", p)
	}
	if r.status != http.StatusOK {
		t.Errorf("a bulk is answered with %d", r.status)
	}
}

// FuzzLoneSurrogate wants strings without one to be what encoding/json reads, written
// again and read again.
func FuzzLoneSurrogate(f *testing.F) {
	for _, s := range []string{`"a"`, `"\ud800"`, `"\ud83d\ude00"`, `"\\u"`, `{"\udc00":["\u0000"]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var s string
		if json.Unmarshal([]byte(text), &s) != nil || !utf8.ValidString(text) {
			return
		}
		half := loneSurrogate([]byte(text)) != ""
		replaced := strings.Count(s, "\ufffd") > strings.Count(text, "\ufffd")+strings.Count(strings.ToLower(text), `\ufffd`)
		if replaced && !half {
			t.Errorf("%q has a character replaced, and nothing is found", text)
		}
	})
}
