package api

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// faults collects all faults of a request, to report them together.
type faults struct{ texts []string }

// mostFaults is the maximum number of faults reported, longestFault the length of one
// in bytes.
const (
	mostFaults   = 32
	longestFault = 1 << 10
)

// full reports whether mostFaults is reached, so that checking can stop.
func (f *faults) full() bool { return len(f.texts) > mostFaults }

func (f *faults) add(text string) {
	if len(text) > longestFault {
		text = strings.ToValidUTF8(text[:longestFault], "") + "…"
	}
	switch {
	case len(f.texts) < mostFaults:
		f.texts = append(f.texts, text)
	case len(f.texts) == mostFaults:
		f.texts = append(f.texts, "and more")
	}
}

// problem returns the collected faults as a problem; nil if there are none.
func (f *faults) problem() *problem.Problem {
	if len(f.texts) == 0 {
		return nil
	}
	p := problem.New(problem.BadRequest, f.first())
	p.Faults = f.texts
	return p
}

// first returns the first fault and the number of the others.
func (f *faults) first() string {
	switch n := len(f.texts) - 1; {
	case n > 0:
		return f.texts[0] + " (and " + strconv.Itoa(n) + " more, see faults)"
	case n == 0:
		return f.texts[0]
	}
	return ""
}

// query has the parameters of a request's query, each once.
type query []parameter

type parameter struct{ name, value string }

func (q query) look(name string) (value string, there bool) {
	for i := range q {
		if q[i].name == name {
			return q[i].value, true
		}
	}
	return "", false
}

// readQuery parses a query in which only known names are allowed. It copies only
// values with escapes.
func readQuery(raw string, known []string, f *faults) query {
	if raw == "" {
		return nil
	}
	q := make(query, 0, 4)
	for raw != "" && !f.full() {
		var part string
		part, raw, _ = strings.Cut(raw, "&")
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name, okName := unescape(name)
		value, okValue := unescape(value)
		_, twice := q.look(name)
		switch {
		case strings.Contains(part, ";"): // some programs read ";" as "&", so it is ambiguous
			f.add("the query has a part with a semicolon, " + quoted(part) + ": write & between parameters, and ; as %3B")
		case !okName || !okValue:
			f.add("the query has a part with a broken escape, " + quoted(part) + ": write % as %25")
		case !slices.Contains(known, name):
			f.add(unknown("parameter", name, known))
		case twice:
			f.add("the parameter " + name + " is given twice: give it once")
		default:
			q = append(q, parameter{name, value})
		}
	}
	return q
}

// unescape decodes the escapes of a query.
func unescape(s string) (string, bool) {
	if !strings.ContainsAny(s, "%+") {
		return s, true
	}
	s, err := url.QueryUnescape(s)
	return s, err == nil
}

// unknown returns a fault for an unknown name, with the name that was probably meant.
func unknown(what, name string, known []string) string {
	if len(name) > 64 {
		name = name[:64]
	}
	text := "there is no " + what + " " + strconv.Quote(name)
	if near := nearest(name, known); near != "" {
		return text + "; did you mean " + strconv.Quote(near) + "?"
	}
	if len(known) == 0 {
		return text + "; this takes none"
	}
	return text + "; there are: " + strings.Join(known, ", ")
}

// nearest returns the known name most similar to name; empty if none is similar.
func nearest(name string, known []string) string {
	best, least := "", max(len(name)/2, 2)
	name = strings.ToLower(strings.ReplaceAll(name, "-", "_"))
	for _, k := range known {
		if d := distance(name, k); d <= least && d < len(k) {
			best, least = k, d-1
		}
	}
	return best
}

// distance returns the edit distance of a and b: letters added, removed, changed or
// swapped.
func distance(a, b string) int {
	const short = 31 // names of settings are short: their rows stay on the stack
	var room [3 * (short + 1)]int
	rows, n := room[:], len(b)+1
	if n > short+1 {
		rows = make([]int, 3*n)
	}
	before, last, next := rows[:n], rows[n:2*n], rows[2*n:3*n]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			next[j] = min(last[j]+1, next[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
