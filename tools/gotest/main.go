// Command gotest runs go test, shows what go test shows, and closes with what
// go test keeps to itself: which tests were skipped and why, and how many passed,
// failed and were skipped.
//
//	gotest [WORD:] [NAME=VALUE...] [FLAGS OF go test] [PACKAGES] [+ [WORD:] ...]
//
// It makes one run for each part between the words "+", all of them whatever becomes
// of the first, with what the part adds to the environment. The closing lines of a part
// begin with its word, which may be left out; where there are several parts, the last
// line has their sum. Its exit status is that of go test, of the first part that has
// failed.
//
// A package whose process the race detector has ended by a fault of its own ("CHECK
// failed"), before any of its tests had failed, is tested once more, and the closing
// lines say so.
//
// Unless -p is given, twice as many packages are tested at a time as there are
// processors: tests wait more than they work.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(2)
	}
	os.Exit(code)
}

// run makes all runs, and closes with what has become of them.
func run(args []string) (code int, err error) {
	var reports []*report
	for _, p := range split(args) {
		r := newReport(os.Stdout, p.word)
		reports = append(reports, r)
		failed, err := p.test(r)
		if err != nil {
			return 0, err
		}
		if len(r.again) > 0 {
			others := r.failing > 0
			repeated, err := p.repeat(r).test(r)
			if err != nil {
				return 0, err
			}
			if !others {
				failed = repeated
			}
		}
		if code == 0 {
			code = failed
		}
	}
	closeAll(os.Stdout, reports)
	return code, nil
}

// part is one run of go test.
type part struct {
	word string   // before its closing lines, such as "race:"; may be empty
	env  []string // besides that of this program
	args []string // of go test
}

// setting is an argument that belongs to the environment.
var setting = regexp.MustCompile(`^[A-Z][A-Z0-9_]*=`)

// split cuts arguments into parts.
func split(args []string) (parts []part) {
	for {
		end := slices.Index(args, "+")
		one := args
		if end >= 0 {
			one = args[:end]
		}
		var p part
		if len(one) > 0 && strings.HasSuffix(one[0], ":") {
			p.word, one = one[0], one[1:]
		}
		for len(one) > 0 && setting.MatchString(one[0]) {
			p.env, one = append(p.env, one[0]), one[1:]
		}
		p.args = append([]string{"test", "-json"}, one...)
		if !slices.ContainsFunc(one, func(a string) bool { return a == "-p" || strings.HasPrefix(a, "-p=") }) {
			p.args = slices.Insert(p.args, 2, fmt.Sprint("-p=", 2*runtime.NumCPU()))
		}
		if parts = append(parts, p); end < 0 {
			return parts
		}
		args = args[end+1:]
	}
}

// repeat is the run of the packages that are tested once more.
func (p *part) repeat(r *report) *part {
	args := slices.DeleteFunc(slices.Clone(p.args), func(a string) bool { return strings.HasPrefix(a, "./") || a == "." })
	again := r.again
	r.again, r.twice = nil, len(again)
	return &part{p.word, p.env, append(args, again...)}
}

// test makes one run.
func (p *part) test(r *report) (code int, err error) {
	test := exec.Command("go", p.args...)
	test.Stderr, test.Env = os.Stderr, append(os.Environ(), p.env...)
	events, err := test.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := test.Start(); err != nil {
		return 0, err
	}
	readErr := r.read(events)
	failure := test.Wait()
	var exit *exec.ExitError
	switch {
	case errors.As(failure, &exit):
		return max(exit.ExitCode(), 1), nil
	case failure != nil:
		return 0, failure
	default:
		return 0, readErr
	}
}
