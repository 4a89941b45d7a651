package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/units"
)

// The values of parameters. They accept exactly what docs/openapi.yaml says, so that
// no client comes to depend on more.

// durationUnit is a unit of durations, with the maximum number of digits before it, which
// rules out overflow.
type durationUnit struct {
	name   string
	digits int
}

var durationUnits = []durationUnit{{"ns", 18}, {"us", 15}, {"µs", 15}, {"ms", 12}, {"h", 5}, {"m", 7}, {"s", 9}}

const mostUnits = 6

var errDuration = errors.New(`use a duration such as "30s", "1h30m" or "250ms"`)

// readDuration parses a duration with units, as time.Duration's String writes it, or "0".
func readDuration(s string) (time.Duration, error) {
	rest := s
	for n := 0; rest != "" && s != "0"; n++ {
		whole := digits(rest)
		rest = rest[whole:]
		if part, found := strings.CutPrefix(rest, "."); found {
			n := digits(part)
			if n == 0 || n > 9 {
				return 0, errDuration
			}
			rest = part[n:]
		}
		i := slices.IndexFunc(durationUnits, func(u durationUnit) bool { return strings.HasPrefix(rest, u.name) && whole <= u.digits })
		if whole == 0 || i < 0 || n == mostUnits {
			return 0, errDuration
		}
		rest = rest[len(durationUnits[i].name):]
	}
	d, err := units.Duration(s)
	if err != nil {
		return 0, errDuration
	}
	return d, nil
}

// digits returns how many decimal digits s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

var errSize = errors.New(`use a number of bytes, or a size such as "512MiB" or "2GB"`)

// sizeUnits are the units of sizes, and none, each with the maximum number of digits
// before it.
var sizeUnits = map[string]int{
	"": 15, "B": 6, "KiB": 6, "MiB": 6, "GiB": 6, "TiB": 6, "kB": 6, "KB": 6, "MB": 6, "GB": 6, "TB": 6,
}

// readSize parses a number of bytes.
func readSize(s string) (int64, error) {
	n := digits(s)
	v, err := units.Size(s)
	if err != nil || n == 0 || n > sizeUnits[s[n:]] {
		return 0, errSize
	}
	return v, nil
}

// readCount parses a number from least to most.
func readCount(s string, least, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || digits(s) != len(s) || s[0] == '0' && s != "0" || n < least || n > most {
		return 0, fmt.Errorf("use a number from %d to %d", least, most)
	}
	return n, nil
}

const mostCPU = 65536

// readCPU parses a number of processors.
func readCPU(s string) (float64, error) {
	v, err := units.Number(s, 0, mostCPU)
	if err != nil || digits(s) == 0 || !json.Valid([]byte(s)) { // only numbers as in JSON
		return 0, fmt.Errorf("use a number of processors from 0 to %d, such as 0.5", mostCPU)
	}
	return v, nil
}

// readFlag parses true or false.
func readFlag(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, errors.New("use true or false")
}

// readTime parses a time as in RFC 3339, which also allows lower-case letters.
func readTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, strings.ToUpper(s))
	if err == nil {
		if t.IsZero() { // a zero time means none
			t = t.Add(time.Second)
		}
		return t, nil
	}
	text := `use a time such as "2030-01-02T15:04:05Z"`
	if strings.Contains(s, " ") {
		text += "; in a query + is written as %2B"
	}
	return time.Time{}, errors.New(text)
}

// seconds converts a JSON number to a duration.
func seconds(v float64) (time.Duration, error) {
	const most = 99999 * 3600 // 99999 hours
	if !(v >= 0 && v <= most) {
		return 0, fmt.Errorf("use a number of seconds from 0 to %d", most)
	}
	return time.Duration(math.Round(v * 1e9)), nil
}

// isNull reports whether a JSON value is null.
func isNull(value []byte) bool { return string(value) == "null" }

// readWhole parses a whole JSON number.
func readWhole(value []byte, least, most int, to *int) (err error) {
	*to, err = readCount(wholeNumber(string(value)), least, most)
	return err
}

// wholeNumber returns a JSON number without a fraction of zeros: in JSON 8.0 and 8
// are the same.
func wholeNumber(s string) string {
	const most = 1 << 53
	if v, err := strconv.ParseFloat(s, 64); err == nil && strings.ContainsAny(s, ".eE") && v == math.Trunc(v) && math.Abs(v) < most {
		return strconv.FormatInt(int64(v), 10)
	}
	return s
}

func readTruth(value []byte, to *bool) (err error) {
	*to, err = readFlag(string(value))
	return err
}

func readString(value []byte, to *string) error {
	if len(value) == 0 || value[0] != '"' {
		return errors.New("use a string")
	}
	return json.Unmarshal(value, to)
}

// readFilled parses a string that must not be empty.
func readFilled(value []byte, to *string) error {
	err := readString(value, to)
	if err == nil && *to == "" {
		return errors.New("it is empty: leave it out")
	}
	return err
}
