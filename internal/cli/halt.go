package cli

import (
	"errors"
	"strconv"
	"strings"
)

// halt is the condition on which a run stops early: a number or a percentage of tasks
// with an outcome. The zero halt never stops.
type halt struct {
	now     bool    // kill running tasks instead of finishing them
	what    string  // fail, success or done; empty: never
	count   int64   // 0: use percent
	percent float64 // of the ended tasks; with done, of the whole input
	text    string  // as given by the user
}

// leastOfPercent is how many tasks must have failed or succeeded before a percentage
// counts. Otherwise the first task alone would decide.
const leastOfPercent = 3

// failures returns the halt after n failures.
func failures(n int64) halt { return halt{what: "fail", count: n, text: strconv.FormatInt(n, 10)} }

// parseHalt parses N, P%, never, or WHEN,WHAT=N as in GNU parallel.
func parseHalt(s string) (halt, error) {
	if s == "never" {
		return halt{text: s}, nil
	}
	h := halt{what: "fail", text: s}
	number := s
	if when, rest, found := strings.Cut(s, ","); found {
		h.what, number, _ = strings.Cut(rest, "=")
		h.now = when == "now"
		if when != "now" && when != "soon" || h.what != "fail" && h.what != "success" && h.what != "done" {
			return halt{}, errHalt
		}
	}
	if text, ok := strings.CutSuffix(number, "%"); ok {
		p, err := strconv.ParseFloat(text, 64)
		if err != nil || !(p > 0 && p <= 100) {
			return halt{}, errHalt
		}
		h.percent = p
		return h, nil
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return halt{}, errHalt
	}
	h.count = n
	return h, nil
}

var errHalt = errors.New("use a number of failures, such as 5 or 10%; or never; or WHEN,WHAT=N, where WHEN is now or " +
	"soon, WHAT is fail, success or done, and N is a number or a percentage, such as now,fail=1")

// progress is the progress of a run.
type progress struct {
	failed, ended int64
	total         int64 // number of tasks; -1: not yet known
}

// reached reports whether the run must stop.
func (h halt) reached(p progress) bool {
	of, n, least := p.ended, p.failed, int64(leastOfPercent)
	switch h.what {
	case "":
		return false
	case "success":
		n = p.ended - p.failed
	case "done":
		of, n, least = p.total, p.ended, 1
	}
	if h.count > 0 {
		return n >= h.count
	}
	return of >= 0 && n >= least && float64(n)*100 >= h.percent*float64(of)
}
