// Package units parses durations, sizes and processors as people write them, in settings
// and on the command line. What the API takes is a part of these forms.
package units

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// The texts of the errors: what to write instead.
const (
	DurationUse = "use a duration such as 500ms, 10s or 2m; a plain number means seconds"
	SizeUse     = "use a size such as 500K, 64MiB or 1.5G"
	CPUUse      = "use a number of processors from 0.01 on, such as 0.5 or 2"
)

var (
	errDuration = errors.New(DurationUse)
	errSize     = errors.New(SizeUse)
	errCPU      = errors.New(CPUUse)
	errNumber   = errors.New("use a number")
)

// Duration parses a duration of zero or more: that of time.ParseDuration, or a number of
// seconds.
func Duration(s string) (time.Duration, error) {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil {
		if d := seconds * float64(time.Second); d >= 0 && d < math.MaxInt64 {
			return time.Duration(d), nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, errDuration
	}
	return d, nil
}

// sizes are the units of sizes: K is 1024 bytes, as in shells, and KB is 1000.
var sizes = map[string]float64{
	"": 1, "B": 1,
	"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
	"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
	"KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

// Size parses a number of bytes, with a unit in large or small letters.
func Size(s string) (int64, error) {
	digits := strings.TrimRightFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	n, err := strconv.ParseFloat(digits, 64)
	unit, known := sizes[strings.ToUpper(strings.TrimSpace(s[len(digits):]))]
	if err != nil || !known || !(n*unit >= 0 && n*unit <= 1<<62) { // false for NaN
		return 0, errSize
	}
	return int64(n * unit), nil
}

const (
	leastCPU = 0.01
	mostCPU  = 1 << 13
)

// CPU parses a number of processors, which may be a fraction.
func CPU(s string) (float64, error) {
	n, err := Number(s, leastCPU, mostCPU)
	if err != nil {
		return 0, errCPU
	}
	return n, nil
}

// Number parses a number from least to most, such as one of events a second.
func Number(s string, least, most float64) (float64, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || !(n >= least && n <= most) { // false for NaN
		return 0, errNumber
	}
	return n, nil
}
