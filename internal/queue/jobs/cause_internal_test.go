package jobs

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                    "",
		"no such file":        "no such file",
		"user 17 not found":   "user # not found",
		"user 4711 not found": "user # not found",
		"took 1.5s, not 20ms": "took #s, not #ms",
		"dial tcp 10.0.0.1:8080: connection refused":            "dial tcp #: connection refused",
		"dial tcp 192.168.100.200:80: i/o timeout":              "dial tcp #: i/o timeout",
		"at 2026-11-21T10:00:00Z it ended":                      "at # it ended",
		"at 2026-11-21 10:00:00.5 it ended":                     "at # # it ended",
		"job 01ARZ3NDEKTSV4RRFFQ69G5FAV is gone":                "job # is gone",
		"id 550e8400-e29b-41d4-a716-446655440000.":              "id #.",
		"id abcdef12-abcd-abcd-abcd-abcdefabcdef!":              "id #!",
		"commit 1a2b3c4 by 0xDEADBEEF":                          "commit # by #",
		"the dead beef of a cafe":                               "the dead beef of a cafe",
		`no key "a 1" in 'b' or ` + "`c`":                       `no key "…" in '…' or ` + "`…`",
		`an "escaped \" quote" ends`:                            `an "…" ends`,
		"can't open 'x', don't know why":                        "can't open '…', don't know why",
		`an open "quote 5 stays`:                                `an open "quote # stays`,
		"handle_request_v2 in utf8.py:17":                       "handle_request_v# in utf#.py:#",
		"/srv/data/2026/11/x.png":                               "/srv/data/#/x.png",
		"KeyError: 'k-17'":                                      "KeyError: '…'",
		"tabs\tand   spaces ":                                   "tabs and spaces",
		"Gr\u00f6\u00dfe 12 \u00fcber 10 \u00b5s, \u0663 Dinge": "Gr\u00f6\u00dfe # \u00fcber # \u00b5s, # Dinge",
		"v1.2.3 is older than v1.10.0-rc1":                      "v# is older than v#-rc#",
		"exit status 1; signal: killed":                         "exit status #; signal: killed",
		strings.Repeat("\u00e4", 300):                           strings.Repeat("\u00e4", 100),
	} {
		if got := pattern(line); got != want {
			t.Errorf("the pattern of %q is %q, want %q", line, got, want)
		}
	}
}

// TestFingerprint keeps what is promised to stay the same.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	end := &job.EndError{Task: &bullpen.TaskError{Type: "ValueError", Message: "row 17 is bad\nand long"}}
	i := &job.Info{Queue: "mail", Name: "send", State: job.Dead, Reason: job.Exhausted, Outcome: bullpen.Failed, Err: end}
	c := causeOf(i)
	if c.Error != "ValueError: row # is bad" || c.Fingerprint != "89af7e51c13b" || len(c.Fingerprint) != job.FingerprintLength {
		t.Errorf("the cause is %+v: fingerprints of what is stored already must not change", c)
	}
	end.Task.Message = "row 4 is bad"
	if again := causeOf(i); again.Fingerprint != c.Fingerprint {
		t.Errorf("another row has the fingerprint %s, want %s", again.Fingerprint, c.Fingerprint)
	}
	for name, other := range map[string]*job.Info{
		"queue":   {Queue: "post", Name: "send", State: job.Dead, Reason: job.Exhausted, Outcome: bullpen.Failed, Err: end},
		"task":    {Queue: "mail", Name: "sent", State: job.Dead, Reason: job.Exhausted, Outcome: bullpen.Failed, Err: end},
		"reason":  {Queue: "mail", Name: "send", State: job.Dead, Reason: job.Final, Outcome: bullpen.Failed, Err: end},
		"outcome": {Queue: "mail", Name: "send", State: job.Dead, Reason: job.Exhausted, Outcome: bullpen.Panic, Err: end},
		"error":   {Queue: "mail", Name: "send", State: job.Dead, Reason: job.Exhausted, Outcome: bullpen.Failed, Err: &job.EndError{Message: "x"}},
	} {
		if got := causeOf(other); got.Fingerprint == c.Fingerprint {
			t.Errorf("another %s has the same fingerprint", name)
		}
	}
}

// FuzzPattern wants text of a bounded length without a number, the same whatever
// the numbers are.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"user 17", `a "b 1`, "550e8400-e29b-41d4-a716-446655440000", "0x1 'can't 2'", "\xff\xfe1", "1.2.3.4:5/6"} {
		f.Add(s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, s string, seed uint64) {
		p := pattern(s)
		if len(p) > longestCause || !utf8.ValidString(p) || strings.ContainsAny(p, "0123456789\n") {
			t.Fatalf("the pattern of %q is %q", s, p)
		}
		r := rand.New(rand.NewPCG(seed, 0))
		other := strings.Map(func(c rune) rune {
			if '1' <= c && c <= '9' {
				return '1' + rune(r.IntN(9))
			}
			return c
		}, s)
		if utf8.ValidString(s) && pattern(other) != p {
			t.Fatalf("the pattern of %q is %q, of %q it is %q", s, p, other, pattern(other))
		}
	})
}

func TestContains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, needle string
		want         bool
	}{
		{"", "", true}, {"a", "", true}, {"", "a", false}, {"Hello", "hell", true}, {"Hello", "LL", false}, {"shell", "ell", true},
		{"aab", "ab", true}, {"\u00c4rger", "\u00e4r", true}, {"\u00c4rger", "er", true}, {"ab", "abc", false},
	} {
		if got := contains(c.text, c.needle); got != c.want {
			t.Errorf("contains(%q, %q) = %v", c.text, c.needle, got)
		}
	}
}
