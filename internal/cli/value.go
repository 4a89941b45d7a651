package cli

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// faults collects the faults of all flags, to report them together.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// value is a flag whose bad values are collected, instead of ending the parsing at
// the first.
type value[T any] struct {
	name, kind string
	to         *T
	text       string
	parse      func(string) (T, error)
	faults     *faults
}

func (v *value[T]) String() string { return v.text }
func (v *value[T]) Type() string   { return v.kind }

func (v *value[T]) Set(s string) error {
	parsed, err := v.parse(s)
	if err != nil {
		v.faults.add("--%s %q: %w", v.name, s, err)
		return nil
	}
	*v.to, v.text = parsed, s
	return nil
}

// flagSet adds flags whose faults are collected.
type flagSet struct {
	*pflag.FlagSet
	faults *faults
}

// add defines a flag. byDefault is shown in the help; *to is not changed.
func add[T any](f flagSet, to *T, name, short, kind, byDefault string, parse func(string) (T, error), usage string) {
	v := &value[T]{name: name, kind: kind, to: to, text: byDefault, parse: parse, faults: f.faults}
	f.VarP(v, name, short, usage)
}

// number returns a parser for whole numbers from least to most.
func number(least, most int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := strconv.Atoi(s)
		switch {
		case err != nil:
			return 0, fmt.Errorf("use a whole number")
		case n < least && most == math.MaxInt:
			return 0, fmt.Errorf("use %d or more", least)
		case n < least || n > most:
			return 0, fmt.Errorf("use %d to %d", least, most)
		}
		return n, nil
	}
}

// duration parses a duration such as 1.5s; a plain number means seconds.
func duration(s string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		if d := seconds * float64(time.Second); d >= 0 && d < math.MaxInt64 {
			return time.Duration(d), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("use a duration such as 500ms, 10s or 2m; a plain number means seconds")
	}
	return d, nil
}

// positive parses a duration above zero.
func positive(s string) (time.Duration, error) {
	d, err := duration(s)
	if err == nil && d == 0 {
		err = fmt.Errorf("use a duration above zero, or leave it out for none")
	}
	return d, err
}

// units are the suffixes of sizes: K is 1024 bytes, as in shells, and KB is 1000.
var units = map[string]float64{
	"": 1, "B": 1,
	"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
	"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// size parses a number of bytes, such as 300MiB.
func size(s string) (int64, error) {
	digits := strings.TrimRightFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	n, err := strconv.ParseFloat(digits, 64)
	unit, known := units[strings.ToUpper(strings.TrimSpace(s[len(digits):]))]
	if err != nil || !known || n*unit < 1 || n*unit > 1<<62 {
		return 0, fmt.Errorf("use a size such as 500K, 64MiB or 1.5G")
	}
	return int64(n * unit), nil
}

// share parses a number of processors, which may be a fraction.
func share(s string) (float64, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n >= 0.01 && n <= 1<<13) { // false for NaN
		return 0, fmt.Errorf("use a number of processors from 0.01 on, such as 0.5 or 2")
	}
	return n, nil
}

// oneOf returns a parser for one of some words.
func oneOf(words ...string) func(string) (string, error) {
	return func(s string) (string, error) {
		if slices.Contains(words, s) {
			return s, nil
		}
		return "", fmt.Errorf("use %s", strings.Join(words, ", "))
	}
}

// word parses any text that is not empty.
func word(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("it is empty")
	}
	return s, nil
}
