package api

import (
	"math"
	"strconv"
)

// numbers is a list of numbers; an unknown value is NaN, and null in JSON. Values are
// rounded to four digits, more than a chart can show.
type numbers []float32

// MarshalJSON encodes the list.
func (n numbers) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 2+5*len(n))
	b = append(b, '[')
	for i, v := range n {
		if i > 0 {
			b = append(b, ',')
		}
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendFloat(b, rounded(f), 'g', -1, 64)
		}
	}
	return append(b, ']'), nil
}

// rounded rounds v to four digits; whole numbers stay as they are.
func rounded(v float64) float64 {
	if v == 0 || v == math.Trunc(v) {
		return v
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	if r := math.Round(v*scale) / scale; !math.IsNaN(r) && !math.IsInf(r, 0) {
		return r
	}
	return v
}
