package queue

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// span is the numbers from from to before to.
type span struct{ from, to int }

// spans is a set of numbers as spans that do not touch, in order.
type spans []span

// add puts the numbers from from to before to into s.
func (s *spans) add(from, to int) {
	if from >= to {
		return
	}
	n := span{from, to}
	i, _ := slices.BinarySearchFunc(*s, from, func(p span, from int) int { return cmp.Compare(p.to, from) })
	j := i
	for j < len(*s) && (*s)[j].from <= n.to {
		n.from, n.to = min(n.from, (*s)[j].from), max(n.to, (*s)[j].to)
		j++
	}
	*s = slices.Replace(*s, i, j, n)
}

func (s spans) has(i int) bool {
	_, found := slices.BinarySearchFunc(s, i, func(p span, i int) int {
		switch {
		case p.to <= i:
			return -1
		case p.from > i:
			return 1
		default:
			return 0
		}
	})
	return found
}

func (s spans) count() int {
	n := 0
	for _, p := range s {
		n += p.to - p.from
	}
	return n
}

// end is the first number after all in s.
func (s spans) end() int {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].to
}

// missing gives what of the numbers before total is not in s.
func (s spans) missing(total int) spans {
	var gaps spans
	at := 0
	for _, p := range s {
		gaps.add(at, min(p.from, total))
		at = p.to
	}
	gaps.add(at, total)
	return gaps
}

// String gives the first spans, for people.
func (s spans) String() string {
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
		if p.to == p.from+1 {
			fmt.Fprintf(&b, "%d", p.from)
		} else {
			fmt.Fprintf(&b, "%d to %d", p.from, p.to-1)
		}
	}
	return b.String()
}

// write stores s under a tag, as the gaps and lengths of its spans.
func (s spans) write(w *recordWriter, tag uint64) {
	b := make([]byte, 0, 4*len(s))
	at := 0
	for _, p := range s {
		b = binary.AppendUvarint(b, uint64(p.from-at))
		b = binary.AppendUvarint(b, uint64(p.to-p.from))
		at = p.to
	}
	w.bytes(tag, b)
}

func (s *spans) read(f field) error {
	at := 0
	for b := f.v; len(b) > 0; {
		var p [2]int
		for i := range p {
			v, n := binary.Uvarint(b)
			if n <= 0 || v > MostMembers {
				return fmt.Errorf("%w: field %d is not a set of members", errCorrupt, f.tag)
			}
			p[i], b = int(v), b[n:]
		}
		from := at + p[0]
		if at = from + p[1]; at > MostMembers {
			return fmt.Errorf("%w: field %d has a member %d", errCorrupt, f.tag, at)
		}
		s.add(from, at)
	}
	return nil
}
