package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// tone is the color of a table cell, where colors are shown.
type tone uint8

const (
	toneNone tone = iota
	toneGood
	toneBad
	toneWarn
	toneFaint
)

var toneCodes = [...]string{toneNone: "", toneGood: "\x1b[32m", toneBad: "\x1b[31m", toneWarn: "\x1b[33m", toneFaint: "\x1b[2m"}

const toneEnd = "\x1b[0m"

// cell is one field of a table. Its text is made fit for a terminal when it is drawn.
type cell struct {
	text string
	tone tone
}

// table has rows of cells under titles. A title that begins with ">" marks a column
// of figures, which are right-aligned.
type table struct {
	titles []string
	rows   [][]cell
	// spare lists the columns to leave out, in this order, if the lines are too long.
	spare []int
}

func newTable(titles ...string) *table { return &table{titles: titles} }

// add appends a row of texts without colors.
func (t *table) add(texts ...string) {
	row := make([]cell, len(texts))
	for i, s := range texts {
		row[i].text = s
	}
	t.rows = append(t.rows, row)
}

// addCells appends a row.
func (t *table) addCells(row ...cell) { t.rows = append(t.rows, row) }

// style is what the output of a table supports.
type style struct {
	colours bool
	width   int // of a line; 0 for any
}

// gap is between two columns.
const gap = 2

// draw returns the table as text, one line per row. Columns without any text are left
// out, except the first.
func (t *table) draw(s style) string {
	columns := t.columns()
	for _, i := range t.spare {
		if s.width > 0 && t.wanted(columns) > s.width {
			columns[i] = -1
		}
	}
	var b strings.Builder
	titles := make([]cell, len(t.titles))
	for i, title := range t.titles {
		titles[i] = cell{text: strings.TrimPrefix(title, ">"), tone: toneFaint}
	}
	t.line(&b, titles, columns, s)
	for _, row := range t.rows {
		t.line(&b, row, columns, s)
	}
	return b.String()
}

// columns returns the width of each column; -1 for those left out.
func (t *table) columns() []int {
	widths := make([]int, len(t.titles))
	for i := range widths {
		widths[i] = -1
		for _, row := range t.rows {
			if i < len(row) && row[i].text != "" {
				widths[i] = max(widths[i], columnsOf(plain(row[i].text)))
			}
		}
		if widths[i] >= 0 || i == 0 {
			widths[i] = max(widths[i], columnsOf(strings.TrimPrefix(t.titles[i], ">")))
		}
	}
	return widths
}

// leastNote is the minimum width of the last column before others are left out.
const leastNote = 24

// wanted returns the length of lines with these columns. The last column may be cut.
func (t *table) wanted(columns []int) int {
	n := -gap
	for i, width := range columns {
		switch {
		case width < 0:
		case i == len(columns)-1:
			n += gap + min(width, leastNote)
		default:
			n += gap + width
		}
	}
	return n
}

func (t *table) line(b *strings.Builder, row []cell, widths []int, s style) {
	used, pending := 0, 0 // columns written, and spaces before the next text
	for i, width := range widths {
		if width < 0 {
			continue
		}
		text := ""
		if i < len(row) {
			text = plain(row[i].text)
		}
		if text == "" {
			pending += width + gap
			continue
		}
		trail := width - columnsOf(text)
		if strings.HasPrefix(t.titles[i], ">") {
			pending, trail = pending+trail, 0
		}
		if s.width > 0 {
			if used+pending >= s.width {
				break
			}
			text = shorten(text, s.width-used-pending)
		}
		b.WriteString(strings.Repeat(" ", pending))
		colour(b, text, row[i].tone, s.colours)
		used += pending + columnsOf(text)
		pending = trail + gap
	}
	b.WriteByte('\n')
}

func colour(b *strings.Builder, text string, tone tone, colours bool) {
	if !colours || tone == toneNone || text == "" {
		b.WriteString(text)
		return
	}
	b.WriteString(toneCodes[tone])
	b.WriteString(text)
	b.WriteString(toneEnd)
}

// shorten cuts a text to a number of terminal columns.
func shorten(text string, columns int) string {
	if columnsOf(text) <= columns {
		return text
	}
	width := 0
	for i, c := range text {
		w := columnsOfRune(c)
		if width+w > columns-1 {
			return text[:i] + "…"
		}
		width += w
	}
	return text
}

// columnsOf returns how many terminal columns a text takes.
func columnsOf(text string) int {
	n := 0
	for i := 0; i < len(text); {
		if text[i] < utf8.RuneSelf {
			n++
			i++
			continue
		}
		c, size := utf8.DecodeRuneInString(text[i:])
		n += columnsOfRune(c)
		i += size
	}
	return n
}

// wide are the characters that take two columns.
var wide = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0x303e, Stride: 1}, {Lo: 0x3041, Hi: 0xa4cf, Stride: 1},
	{Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
	{Lo: 0xff00, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
}, R32: []unicode.Range32{
	{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, {Lo: 0x1f900, Hi: 0x1f9ff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
}}

func columnsOfRune(c rune) int {
	switch {
	case c < 0x300:
		return 1
	case unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, c):
		return 2
	}
	return 1
}
