package cli

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// plain makes an untrusted text fit for one line of a terminal: nothing in it can
// move the cursor, change colors or the direction of writing.
func plain(text string) string {
	if !strings.ContainsFunc(text, unfit) && utf8.ValidString(text) {
		return text
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\t' || c == '\u2028' || c == '\u2029':
			return ' '
		case unfit(c):
			return -1
		}
		return c
	}, text)
}

// unfit reports whether c can affect a terminal: control characters, including those
// from 0x80 on, and marks that change the direction of writing.
func unfit(c rune) bool {
	return unicode.IsControl(c) || c >= '\u200e' && c <= '\u200f' || c >= '\u2028' && c <= '\u202e' || c >= '\u2066' && c <= '\u2069'
}

// readable reports whether b can be shown as it is: text whose only control
// characters are line ends and tabs.
func readable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	return !strings.ContainsFunc(string(b), func(c rune) bool { return unfit(c) && c != '\n' && c != '\t' && c != '\r' })
}

// ageText formats an age or a duration in one or two figures: 850ms, 12s, 3m, 5h, 2d.
func ageText(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Microsecond:
		return "<1µs"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", math.Floor(d.Seconds()*10)/10)
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// sinceText formats how long ago t was, or how far in the future it is; empty for the
// zero time.
func sinceText(t, now time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d <= -time.Second:
		return "in " + wholeText((-d).Round(time.Second))
	case d < time.Second:
		return "now"
	default:
		return wholeText(d)
	}
}

// wholeText formats a duration of a second or more without fractions of seconds.
func wholeText(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()))
	}
	return ageText(d)
}

// sizeText formats a number of bytes with three figures.
func sizeText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%dB", n)
	}
	value, unit := float64(n), 0
	names := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for value >= 1023.5 && unit < len(names)-1 {
		value, unit = value/1024, unit+1
	}
	if value < 9.95 && value != math.Trunc(value) {
		return fmt.Sprintf("%.1f%s", value, names[unit])
	}
	return fmt.Sprintf("%.0f%s", value, names[unit])
}

// countText formats a number in short form: 9999, 12k, 3.4M.
func countText[T int | int64 | uint64](n T) string {
	switch v := float64(n); {
	case v < 10_000:
		return fmt.Sprint(n)
	case v < 999_500:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v < 9_950_000:
		return fmt.Sprintf("%.1fM", v/1e6)
	case v < 999_500_000:
		return fmt.Sprintf("%.0fM", v/1e6)
	default:
		return fmt.Sprintf("%.1fG", v/1e9)
	}
}

// plural formats a number with the thing that it counts.
func plural[T int | int64 | uint64](n T, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// nearest returns the word that was probably meant: the one with the smallest edit
// distance, if that is small; otherwise empty.
func nearest(word string, words []string) string {
	const longest = 64 // longer texts were not meant as a name
	if len(word) > longest {
		return ""
	}
	best, least := "", max(1, len(word)/2)+1
	for _, w := range words {
		d := distance(strings.ToLower(word), strings.ToLower(w))
		if strings.HasPrefix(w, word) && len(word) >= 2 {
			d = min(d, 1) // it was cut short
		}
		if d < least {
			best, least = w, d
		}
	}
	return best
}

// distance returns the edit distance of a and b: letters added, removed or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
