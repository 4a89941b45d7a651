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
	out      io.Writer
	word     string                 // before each of the closing lines; may be empty
	lines    map[[2]string][]string // what open tests printed, by package and test
	packages map[string]*results    // what became of the tests, by package
	failing  int                    // packages that have failed
	// again are packages whose process the race detector has ended by a fault of its own,
	// before any test of them had failed. They are tested once more.
	again []string
	twice int // how many packages were
}

// results is what became of tests.
type results struct {
	passed, failed, skipped int
	reasons                 map[string][]string // names of skipped tests by reason
	detector                bool                // the race detector has failed
}

// detectorFault begins the last words of a race detector that has found a fault in
// itself.
const detectorFault = "ThreadSanitizer: CHECK failed"

func newReport(out io.Writer, word string) *report {
	if word != "" {
		word += " "
	}
	return &report{out: out, word: word, lines: map[[2]string][]string{}, packages: map[string]*results{}}
}

func (r *report) of(pkg string) *results {
	t := r.packages[pkg]
	if t == nil {
		t = &results{reasons: map[string][]string{}}
		r.packages[pkg] = t
	}
	return t
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
	key, t := [2]string{e.Package, e.Test}, r.of(e.Package)
	t.detector = t.detector || strings.Contains(e.Output, detectorFault)
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
		r.failing++
		if t.detector && t.failed == 0 && r.twice == 0 {
			r.repeat(e.Package)
		} else {
			r.showOpen(e.Package)
		}
	case e.Test == "":
	case e.Action == "pass":
		t.passed++
		delete(r.lines, key)
	case e.Action == "skip":
		t.skipped++
		why := reason(r.lines[key])
		t.reasons[why] = append(t.reasons[why], e.Test)
		delete(r.lines, key)
	case e.Action == "fail":
		t.failed++
		r.show(key)
	}
}

// repeat forgets what became of the tests of a package, which is tested once more.
func (r *report) repeat(pkg string) {
	fmt.Fprintf(r.out, "%s: the race detector has failed (%s); the package is tested once more\n", pkg, detectorFault)
	maps.DeleteFunc(r.lines, func(key [2]string, _ []string) bool { return key[0] == pkg })
	delete(r.packages, pkg)
	r.again = append(r.again, pkg)
	r.failing--
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
			r.of(pkg).failed++
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

// sum adds up all packages.
func (r *report) sum() results {
	all := results{reasons: map[string][]string{}}
	for _, t := range r.packages {
		all.passed, all.failed, all.skipped = all.passed+t.passed, all.failed+t.failed, all.skipped+t.skipped
		for why, names := range t.reasons {
			all.reasons[why] = append(all.reasons[why], names...)
		}
	}
	return all
}

// close prints the closing lines.
func (r *report) close() results {
	all := r.sum()
	if r.twice > 0 {
		fmt.Fprintf(r.out, "%spackages tested twice, as the race detector had failed: %d\n", r.word, r.twice)
	}
	if all.skipped == 0 {
		fmt.Fprintln(r.out, r.word+"0 tests skipped")
	}
	for _, why := range slices.Sorted(maps.Keys(all.reasons)) {
		names := all.reasons[why]
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
	count(r.out, r.word, all.passed, all.failed, all.skipped)
	return all
}

// closeAll prints the closing lines of all, and their sum where there are several.
func closeAll(out io.Writer, all []*report) {
	var passed, failed, skipped int
	for _, r := range all {
		t := r.close()
		passed, failed, skipped = passed+t.passed, failed+t.failed, skipped+t.skipped
	}
	if len(all) > 1 {
		count(out, "", passed, failed, skipped)
	}
}

func count(out io.Writer, word string, passed, failed, skipped int) {
	fmt.Fprintf(out, "%s%d passed, %d failed, %d skipped\n", word, passed, failed, skipped)
}
