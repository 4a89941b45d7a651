package record

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen/job"
)

// Span is the numbers from From up to, but not including, To.
type Span struct{ From, To int }

// Spans is a set of numbers: sorted spans that neither overlap nor touch.
type Spans []Span

// Add adds the span from up to, but not including, to.
func (s *Spans) Add(from, to int) {
	if from >= to {
		return
	}
	n := Span{from, to}
	i, _ := slices.BinarySearchFunc(*s, from, func(p Span, from int) int { return cmp.Compare(p.To, from) })
	j := i
	for j < len(*s) && (*s)[j].From <= n.To {
		n.From, n.To = min(n.From, (*s)[j].From), max(n.To, (*s)[j].To)
		j++
	}
	*s = slices.Replace(*s, i, j, n)
}

// Has reports whether i is in s.
func (s Spans) Has(i int) bool {
	_, found := slices.BinarySearchFunc(s, i, func(p Span, i int) int {
		switch {
		case p.To <= i:
			return -1
		case p.From > i:
			return 1
		default:
			return 0
		}
	})
	return found
}

// Count returns how many numbers are in s.
func (s Spans) Count() int {
	n := 0
	for _, p := range s {
		n += p.To - p.From
	}
	return n
}

// End returns the number after the largest in s.
func (s Spans) End() int {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].To
}

// Missing returns the numbers below total that are not in s.
func (s Spans) Missing(total int) Spans {
	var gaps Spans
	at := 0
	for _, p := range s {
		gaps.Add(at, min(p.From, total))
		at = p.To
	}
	gaps.Add(at, total)
	return gaps
}

// String returns the first spans, for people.
func (s Spans) String() string {
	const most = 8
	var b strings.Builder
	for i, p := range s {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == most {
			fmt.Fprintf(&b, "and %d more ranges", len(s)-most)
			break
		}
		if p.To == p.From+1 {
			fmt.Fprintf(&b, "%d", p.From)
		} else {
			fmt.Fprintf(&b, "%d to %d", p.From, p.To-1)
		}
	}
	return b.String()
}

// write stores s under a tag, as the gaps and lengths of its spans.
func (s Spans) write(w *recordWriter, tag uint64) {
	b := make([]byte, 0, 4*len(s))
	at := 0
	for _, p := range s {
		b = binary.AppendUvarint(b, uint64(p.From-at))
		b = binary.AppendUvarint(b, uint64(p.To-p.From))
		at = p.To
	}
	w.bytes(tag, b)
}

func (s *Spans) read(f field) error {
	at := 0
	for b := f.v; len(b) > 0; {
		var p [2]int
		for i := range p {
			v, n := binary.Uvarint(b)
			if n <= 0 || v > job.MostMembers {
				return fmt.Errorf("%w: field %d is not a set of members", job.ErrDamaged, f.tag)
			}
			p[i], b = int(v), b[n:]
		}
		from := at + p[0]
		if at = from + p[1]; at > job.MostMembers {
			return fmt.Errorf("%w: field %d has a member %d", job.ErrDamaged, f.tag, at)
		}
		s.Add(from, at)
	}
	return nil
}
