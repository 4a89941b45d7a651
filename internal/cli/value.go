package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/bullpen-run/bullpen/internal/units"
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

// duration parses a duration of zero or more.
func duration(s string) (time.Duration, error) { return units.Duration(s) }

// positive parses a duration above zero.
func positive(s string) (time.Duration, error) {
	d, err := duration(s)
	if err == nil && d == 0 {
		err = fmt.Errorf("use a duration above zero, or leave it out for none")
	}
	return d, err
}

// size parses a number of bytes above zero.
func size(s string) (int64, error) {
	n, err := units.Size(s)
	if err == nil && n == 0 {
		err = errors.New(units.SizeUse)
	}
	return n, err
}

// share parses a number of processors, which may be a fraction.
func share(s string) (float64, error) { return units.CPU(s) }

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
