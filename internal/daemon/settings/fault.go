package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one fault of a configuration.
type Fault struct {
	// File is the name of the file, or "environment" or "flags".
	File string
	// Line and Column begin at 1; they are 0 if not known.
	Line, Column int
	// Key is the path of the key, or the name of the variable; empty for the whole
	// file.
	Key string
	// Text is what is wrong and what to do.
	Text string
}

// Error returns f on one line.
func (f Fault) Error() string {
	var b strings.Builder
	b.WriteString(oneLine(f.File))
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
		if f.Column > 0 {
			fmt.Fprintf(&b, ":%d", f.Column)
		}
	}
	if f.Key != "" {
		b.WriteString(": " + oneLine(f.Key))
	}
	return b.String() + ": " + oneLine(f.Text)
}

// oneLine makes untrusted text fit for a terminal.
func oneLine(s string) string {
	clean := func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}
	return strings.Map(clean, s)
}

// Faults has all faults of a configuration: those of the file by line, then those of
// the environment, then those of the flags.
type Faults []Fault

// Error returns one line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults one by one.
func (f Faults) Unwrap() []error {
	all := make([]error, len(f))
	for i, one := range f {
		all[i] = one
	}
	return all
}

// level is the source of a value; a higher one takes precedence.
type level uint8

const (
	ofDefault level = iota
	ofFile
	ofEnvironment
	ofFlag
)

// position is where a value is written.
type position struct {
	level        level
	line, column int
	name         string // its name there, if that is not its path
}

// mostFaults bounds the number of faults reported.
const mostFaults = 1000

// journal collects faults.
type journal struct {
	file   string
	faults []Fault
	levels []level // levels of faults
}

// add records a fault of the value at p, which has the path key.
func (j *journal) add(p position, key, format string, args ...any) {
	if j.full() {
		return
	}
	f := Fault{File: j.file, Line: p.line, Column: p.column, Key: cmp.Or(p.name, key), Text: fmt.Sprintf(format, args...)}
	switch p.level {
	case ofEnvironment:
		f.File = "environment"
	case ofFlag:
		f.File = "flags"
	case ofDefault, ofFile:
	}
	if len(j.faults) == mostFaults {
		f.Key, f.Text = "", fmt.Sprintf("there are more than %d faults: fix these first", mostFaults)
	}
	j.faults, j.levels = append(j.faults, f), append(j.levels, p.level)
}

// full reports whether mostFaults is exceeded.
func (j *journal) full() bool { return len(j.faults) > mostFaults }

// err returns all faults in order; nil if there are none.
func (j *journal) err() error {
	if len(j.faults) == 0 {
		return nil
	}
	order := make([]int, len(j.faults))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := j.faults[a], j.faults[b]
		return cmp.Or(cmp.Compare(j.levels[a], j.levels[b]), cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
	})
	sorted := make(Faults, len(order))
	for i, at := range order {
		sorted[i] = j.faults[at]
	}
	return sorted
}
