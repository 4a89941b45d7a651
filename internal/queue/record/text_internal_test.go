package record

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	bullpen "github.com/bullpen-run/bullpen"
)

func TestCut(t *testing.T) {
	t.Parallel()
	text := "aä€😀z"
	for most := range len(text) + 3 {
		got := Cut(text, most)
		if len(got) > most || !strings.HasPrefix(text, got) || !utf8.ValidString(got) || len(got) < min(most, len(text))-3 {
			t.Errorf("cut to %d bytes: %q", most, got)
		}
	}
	if got := Cut("\x80\x80\x80", 2); len(got) > 2 {
		t.Errorf("what is no text is cut to %d bytes, want 2 at most", len(got))
	}
}

func TestFirstLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", LongestError)
	for want, te := range map[string]*bullpen.TaskError{
		"":                   {},
		"one":                {Message: "one\ntwo"},
		"cause":              {Err: errors.New("cause\nmore")},
		"ValueError: one":    {Type: "ValueError", Message: "one"},
		long[:LongestError]:  {Message: long},
		"message over cause": {Message: "message over cause", Err: errors.New("cause")},
	} {
		if got := FirstLine(te); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
