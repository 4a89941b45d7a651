package settings

import (
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/units"
)

// kind describes how values of one type are written.
type kind[T any] struct {
	name  string // for people
	use   string // advice for a fault
	parse func(value) (T, error)
}

// errUse is the error of a parser that has nothing to add to the kind's use.
var errUse = errors.New("use another value")

// scalar returns a kind of single values.
func scalar[T any](name, use string, parse func(string) (T, bool)) kind[T] {
	return kind[T]{name: name, use: use, parse: func(v value) (t T, err error) {
		ok := v.shape == isScalar
		if ok {
			t, ok = parse(v.text)
		}
		if !ok {
			return t, errUse
		}
		return t, nil
	}}
}

// text is any text that is not empty.
var text = scalar("text", "use a text", func(s string) (string, bool) {
	return s, s != "" && !strings.ContainsRune(s, 0)
})

// flag is true or false.
var flag = scalar("true or false", "use true or false", func(s string) (b, ok bool) {
	return s == "true", s == "true" || s == "false"
})

// path is a file or folder, relative to the folder of the configuration file.
var path = kind[string]{name: "path", use: "use the path of a file or folder", parse: func(v value) (string, error) {
	s, err := text.parse(v)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(s) && v.folder != "" {
		s = filepath.Join(v.folder, s)
	}
	return s, nil
}}

// count returns a kind of whole numbers from least to most.
func count(least, most int) kind[int] {
	use := fmt.Sprintf("use a whole number from %d to %d", least, most)
	if most == math.MaxInt {
		use = fmt.Sprintf("use a whole number, %d or more", least)
	}
	return scalar("number", use, func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n >= least && n <= most
	})
}

// orNone makes 0 mean none, which is a negative number in T.
func orNone[T ~int | ~int64 | ~float64](k kind[T]) kind[T] {
	return kind[T]{name: k.name, use: k.use + ", or 0 for none", parse: func(v value) (T, error) {
		if v.shape == isScalar {
			if n, err := strconv.ParseFloat(v.text, 64); err == nil && n == 0 {
				return -1, nil
			}
		}
		return k.parse(v)
	}}
}

// wide converts a kind of int to one of int64.
func wide(k kind[int]) kind[int64] {
	return kind[int64]{name: k.name, use: k.use, parse: func(v value) (int64, error) {
		n, err := k.parse(v)
		return int64(n), err
	}}
}

// fraction returns a kind of numbers from least to most.
func fraction(least, most float64, use string) kind[float64] {
	return scalar("number", use, func(s string) (float64, bool) {
		n, err := units.Number(s, least, most)
		return n, err == nil
	})
}

func parseDuration(s string) (time.Duration, bool) {
	d, err := units.Duration(s)
	return d, err == nil
}

// duration is a duration of zero or more.
var duration = scalar("duration", units.DurationUse, parseDuration)

// span returns a kind of durations of at least least.
func span(least time.Duration) kind[time.Duration] {
	return scalar("duration", fmt.Sprintf("%s; the minimum is %v", units.DurationUse, least), func(s string) (time.Duration, bool) {
		d, ok := parseDuration(s)
		return d, ok && d >= least
	})
}

// orNever is a positive duration, or the word never, which is a negative one.
var orNever = scalar("duration or never", units.DurationUse+"; or never", func(s string) (time.Duration, bool) {
	if s == "never" {
		return -1, true
	}
	d, ok := parseDuration(s)
	return d, ok && d > 0
})

// size returns a kind of numbers of bytes.
func size[T int | int64](least, most int64) kind[T] {
	use := units.SizeUse
	if least > 1 {
		use += "; the minimum is " + bytesText(least)
	}
	if most < math.MaxInt64 {
		use += "; the maximum is " + bytesText(most)
	}
	return scalar("size", use, func(s string) (T, bool) {
		n, err := units.Size(s)
		return T(n), err == nil && n >= least && n <= most && int64(T(n)) == n
	})
}

// bytesText formats a number of bytes in the largest unit that leaves it whole.
func bytesText(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size && n%unit.size == 0 {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// parsed returns a kind of the given words, which parse converts.
func parsed[T any](words []string, parse func(string) (T, error)) kind[T] {
	return scalar(strings.Join(words, ", "), "use "+strings.Join(words, ", "), func(s string) (T, bool) {
		t, err := parse(s)
		return t, err == nil && slices.Contains(words, s)
	})
}

// word returns a kind of the given words, each of which stands for a value.
func word[T any](words []string, values []T) kind[T] {
	return scalar(strings.Join(words, ", "), "use "+strings.Join(words, ", "), func(s string) (t T, ok bool) {
		if i := slices.Index(words, s); i >= 0 {
			return values[i], true
		}
		return t, false
	})
}

// list returns a kind of lists of single values. A single value is a list of one.
func list(name, use string, good func(string) bool) kind[[]string] {
	return kind[[]string]{name: "list of " + name, use: use, parse: func(v value) ([]string, error) {
		all, ok := v.scalars()
		if !ok || slices.ContainsFunc(all, func(s string) bool { return !good(s) }) {
			return nil, errUse
		}
		return all, nil
	}}
}

// splitList splits a list from the environment or a flag.
func splitList(s string) []string {
	parts := strings.Split(s, ",")
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
	}
	return parts
}

const addressUse = "use host:port, such as 127.0.0.1:8650"

// isAddress reports whether s is "host:port"; the host may be empty.
func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsAny(host, "/@ \t\r\n\x00") {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// address is an address to listen on.
var address = scalar("host:port", addressUse, func(s string) (string, bool) { return s, isAddress(s) })

// isHost reports whether s is the name or address of a host, with or without a port.
func isHost(s string) bool {
	if isAddress(s) {
		s, _, _ = net.SplitHostPort(s)
	}
	return s != "" && len(s) < 256 && (net.ParseIP(strings.Trim(s, "[]")) != nil || !strings.ContainsAny(s, "/:@*[] \t\r\n\x00"))
}

// isToken reports whether s is valid as the name of a queue or a namespace.
func isToken(s string) bool {
	return s != "" && len(s) <= longestToken && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

const (
	longestToken = 64
	nameUse      = `use up to 64 lower-case letters, digits, "-" and "_"`
)

var token = scalar("name", nameUse, func(s string) (string, bool) { return s, isToken(s) })
