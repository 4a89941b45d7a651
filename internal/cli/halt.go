package cli

import (
	"errors"
	"strconv"
	"strings"
)

// halt says when a run stops early: after so many tasks of a kind, or once they are so
// many percent. The zero halt is never.
type halt struct {
	now     bool    // what runs is killed, not finished
	what    string  // fail, success or done; empty: never
	count   int64   // 0: by percent
	percent float64 // of the tasks that have ended; of the whole input with done
	text    string  // as written
}

// leastOfPercent is how many tasks must have failed, or succeeded, before a percentage
// counts: the first task would else decide alone.
const leastOfPercent = 3

// failures is the halt after n failures.
func failures(n int64) halt { return halt{what: "fail", count: n, text: strconv.FormatInt(n, 10)} }

// parseHalt reads N, P%, never, or WHEN,WHAT=N as GNU parallel has it.
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

var errHalt = errors.New("use a number of failures, such as 5 or 10%; or never, or WHEN,WHAT=N, " +
	"where WHEN is now or soon, WHAT is fail, success or done, and N is a number or a percentage, such as now,fail=1")

// progress is how far a run is.
type progress struct {
	failed, ended int64
	total         int64 // tasks; -1: not known yet
}

// reached reports whether the run is to stop.
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
