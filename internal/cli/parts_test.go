package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/bullpen-run/bullpen"
)

// cut runs a splitter to the end of its input.
func cut(from io.Reader, limit int) (lines []string, err error) {
	s := newSplitter(from, '\n', limit)
	for {
		records, err := s.next()
		for _, r := range records {
			if r.size > 0 {
				lines = append(lines, fmt.Sprintf("too long: %d", r.size))
			} else {
				lines = append(lines, string(r.text))
			}
		}
		if err != nil {
			return lines, err
		}
	}
}

func TestSplitter(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("l", 3*blockSize)
	for _, c := range []struct {
		name, in string
		limit    int
		want     []string
	}{
		{"empty", "", 10, nil},
		{"one", "a\n", 10, []string{"a"}},
		{"no end", "a\nb", 10, []string{"a", "b"}},
		{"empty lines", "\n\na\n\n", 10, []string{"", "", "a", ""}},
		{"carriage return stays", "a\r\n", 10, []string{"a\r"}},
		{"at the limit", "0123456789\nb\n", 10, []string{"0123456789", "b"}},
		{"beyond it", "0123456789a\nb\n", 10, []string{"too long: 11", "b"}},
		{"beyond it at the end", "b\n0123456789a", 10, []string{"b", "too long: 11"}},
		{"longer than a block", long + "\nb\n", 4 * blockSize, []string{long, "b"}},
		{"far too long", long + "\nb\n", 10, []string{fmt.Sprintf("too long: %d", len(long)), "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, in := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in))} {
				got, err := cut(in, c.limit)
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got %.100q, want %.100q", got, c.want)
				}
			}
		})
	}
	if _, err := cut(iotest.ErrReader(errors.New("torn cable")), 10); err == nil || !strings.Contains(err.Error(), "torn cable") {
		t.Errorf("a failed read gave %v", err)
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), 2)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		limit = 1 + max(limit, 0)%100
		got, err := cut(iotest.HalfReader(bytes.NewReader(in)), limit)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		var want []string
		for line := range bytes.Lines(in) {
			line = bytes.TrimSuffix(line, []byte("\n"))
			if len(line) > limit {
				want = append(want, fmt.Sprintf("too long: %d", len(line)))
			} else {
				want = append(want, string(line))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte(`{"index":1,"hash":"ca978112ca1bbdca","outcome":"ok"}` + "\n{"))
	f.Add([]byte(`{"index":16777216,"hash":"0","outcome":"ok"}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, size, err := readHistory(bytes.NewReader(in))
		if err != nil {
			return
		}
		if size > int64(len(in)) || len(h.ok) != len(h.hashes) {
			t.Errorf("size %d of %d, %d outcomes, %d hashes", size, len(in), len(h.ok), len(h.hashes))
		}
	})
}

func TestHistoryRefusesGarbage(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`{"index":0,"hash":"ca978112ca1bbdca","outcome":"ok"}`, `{"index":-1,"hash":"ca978112ca1bbdca"}`,
		`{"index":1,"hash":"ca97"}`, `{"index":99999999999,"hash":"ca978112ca1bbdca"}`, `text`,
	} {
		if _, _, err := readHistory(strings.NewReader(line + "\n")); err == nil {
			t.Errorf("%s was taken", line)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	if got, err := size("0.5"); err == nil {
		t.Errorf("size(0.5) = %d", got)
	}
	for _, in := range []string{"", "0", "-1", "x", "0%", "101%", "NaN%", "%", "now", "now,", "now,fail", "now,fail=0", "later,fail=1", "soon,x=1", "soon,fail=1x", "never,fail=1"} {
		if got, err := parseHalt(in); err == nil {
			t.Errorf("parseHalt(%q) = %v", in, got)
		}
	}
}

func TestHalt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at            string
		failed, ended int64
		want          bool
	}{
		{"2", 1, 1, false}, {"2", 2, 9, true}, {"50%", 2, 2, false}, {"50%", 3, 6, true}, {"50%", 3, 7, false},
		{"never", 9, 9, false}, {"now,fail=1", 0, 9, false}, {"now,fail=1", 1, 9, true}, {"soon,fail=3", 2, 9, false},
		{"soon,success=1", 9, 9, false}, {"now,success=1", 8, 9, true}, {"soon,success=50%", 4, 6, false}, {"soon,success=50%", 3, 6, true},
		{"now,done=5", 0, 4, false}, {"now,done=5", 5, 5, true}, {"soon,done=10%", 0, 1, false}, {"soon,done=10%", 0, 2, true},
	} {
		h, err := parseHalt(c.at)
		if err != nil || h.reached(progress{failed: c.failed, ended: c.ended, total: 20}) != c.want {
			t.Errorf("--halt %s, %d of %d failed: want %v (%v)", c.at, c.failed, c.ended, c.want, err)
		}
	}
	if (halt{}).reached(progress{failed: 1000, ended: 1000, total: 1000}) {
		t.Error("a run without --halt stopped")
	}
	if h, _ := parseHalt("soon,done=10%"); h.reached(progress{ended: 1000, total: -1}) {
		t.Error("a part of an input was reached whose size is not known")
	}
}

func TestSafeName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a": "a", "a/b": "a/b", "./a//b/": "a/b", "/a": "a", "../a": "%2E%2E/a", "../../a": "%2E%2E/%2E%2E/a",
		"a/../../b": "%2E%2E/b", "%2E%2E/a": "%252E%252E/a", "/../a": "a",
	} {
		if got := safeName(in); got != want {
			t.Errorf("safeName(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAppendText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"plain": "plain", `a"\b`: `a"\b`, "<é\n\x00>": "<é\n\x00>", "\xff": "\uFFFD", "": ""} {
		var got string
		if err := json.Unmarshal(appendText(nil, in), &got); err != nil || got != want {
			t.Errorf("%q became %s (%v)", in, appendText(nil, in), err)
		}
	}
}

func TestFailureText(t *testing.T) {
	t.Parallel()
	it := &item{index: 17, line: []byte(strings.Repeat("i", 100)), attempts: 2, err: &bullpen.TaskError{
		Outcome: bullpen.Crashed, Signal: "killed", ExitCode: -1, Worker: "w-3", Detail: "one\n\x1b[2Jtwo",
	}}
	want := `bullpen: task 17 ("` + strings.Repeat("i", 60) + `…"): crashed: signal killed (worker w-3, 2 attempts)` + "\n  | one\n  | [2Jtwo\n"
	if diff := cmp.Diff(want, (&run{}).failure(it)); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "ok"}, {bullpen.ErrClosed, "closed"}, {fmt.Errorf("%w: x", bullpen.ErrStart), "start"},
		{refused("no"), "refused"}, {&bullpen.TaskError{Outcome: bullpen.Timeout}, "timeout"},
	} {
		if got := outcomeOf(c.err); got != c.want {
			t.Errorf("%v is %q, want %q", c.err, got, c.want)
		}
	}
}
