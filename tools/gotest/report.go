package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is one line of go test -json; see go doc test2json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// report makes text of events.
type report struct {
	out                     io.Writer
	word                    string                 // before each of the closing lines; may be empty
	lines                   map[[2]string][]string // what open tests printed, by package and test
	passed, failed, skipped int
	reasons                 map[string][]string // names of skipped tests by reason
}

func newReport(out io.Writer, word string) *report {
	if word != "" {
		word += " "
	}
	return &report{out: out, word: word, lines: map[[2]string][]string{}, reasons: map[string][]string{}}
}

// read reports the events of one run. A line that is no event is shown as it is.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(r.out, line)
			} else {
				r.take(e)
			}
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (r *report) take(e event) {
	key := [2]string{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(r.out, e.Output)
	case e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" {
			fmt.Fprint(r.out, e.Output)
		}
	case e.Action == "output":
		r.lines[key] = append(r.lines[key], e.Output)
	case e.Test == "" && e.Action == "fail":
		r.showOpen(e.Package)
	case e.Test == "":
	case e.Action == "pass":
		r.passed++
		delete(r.lines, key)
	case e.Action == "skip":
		r.skipped++
		why := reason(r.lines[key])
		r.reasons[why] = append(r.reasons[why], e.Test)
		delete(r.lines, key)
	case e.Action == "fail":
		r.failed++
		r.show(key)
	}
}

// frame is a line that go test prints only with -v.
var frame = regexp.MustCompile(`^\s*=== (RUN|PAUSE|CONT|NAME) `)

// show prints what a test said, and forgets it.
func (r *report) show(key [2]string) {
	for _, line := range r.lines[key] {
		if !frame.MatchString(line) {
			fmt.Fprint(r.out, line)
		}
	}
	delete(r.lines, key)
}

// showOpen shows what the tests said that were still open when their package
// ended, as it does by a crash. Benchmarks are always open: nothing tells their end.
func (r *report) showOpen(pkg string) {
	open := slices.Collect(maps.Keys(r.lines))
	slices.SortFunc(open, func(a, b [2]string) int { return strings.Compare(a[1], b[1]) })
	for _, key := range open {
		if key[0] != pkg {
			continue
		}
		if !strings.HasPrefix(key[1], "Benchmark") {
			r.failed++
		}
		r.show(key)
	}
}

// said is a line by which a test speaks: its file, its line, and the words.
var said = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)\n?$`)

// reason finds the last thing that a skipped test said.
func reason(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if m := said.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return "no reason given"
}

// most is how many names of skipped tests are shown for one reason.
const most = 4

// close prints the closing lines.
func (r *report) close() {
	if r.skipped == 0 {
		fmt.Fprintln(r.out, r.word+"0 tests skipped")
	}
	for _, why := range slices.Sorted(maps.Keys(r.reasons)) {
		names := r.reasons[why]
		slices.Sort(names)
		n := len(names)
		shown := strings.Join(names[:min(n, most)], ", ")
		if n > most {
			shown += ", …"
		}
		tests := "tests"
		if n == 1 {
			tests = "test"
		}
		fmt.Fprintf(r.out, "%s%d %s skipped: %s (%s)\n", r.word, n, tests, why, shown)
	}
	count(r.out, r.word, r.passed, r.failed, r.skipped)
}

// closeAll prints the closing lines of all, and their sum where there are several.
func closeAll(out io.Writer, all []*report) {
	var passed, failed, skipped int
	for _, r := range all {
		r.close()
		passed, failed, skipped = passed+r.passed, failed+r.failed, skipped+r.skipped
	}
	if len(all) > 1 {
		count(out, "", passed, failed, skipped)
	}
}

func count(out io.Writer, word string, passed, failed, skipped int) {
	fmt.Fprintf(out, "%s%d passed, %d failed, %d skipped\n", word, passed, failed, skipped)
}
