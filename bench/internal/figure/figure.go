// Package figure has what the tables of a benchmark are made of.
package figure

import (
	"fmt"
	"slices"
	"strings"
)

// Spread is what the rounds gave for one figure.
type Spread struct{ Least, Median, Most float64 }

// Of gives the spread of what the rounds gave, false where that is nothing. It
// sorts all.
func Of(all []float64) (Spread, bool) {
	if len(all) == 0 {
		return Spread{}, false
	}
	slices.Sort(all)
	n := len(all)
	return Spread{all[0], (all[(n-1)/2] + all[n/2]) / 2, all[n-1]}, true
}

// longestText is how much of a text is shown in a cell, in characters.
const longestText = 160

// CellText makes a text fit for one cell of a table.
func CellText(text string) string {
	text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
	if runes := []rune(text); len(runes) > longestText {
		text = string(runes[:longestText]) + "…"
	}
	return text
}

// Number writes v with blanks between thousands.
func Number(v float64, digits int) string {
	text := fmt.Sprintf("%.*f", digits, v)
	whole, rest, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + " " + whole[i:]
	}
	if rest != "" {
		return whole + "." + rest
	}
	return whole
}

// Ratio writes v with as many digits as mean something.
func Ratio(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f", v)
}
