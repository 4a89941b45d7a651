// Package command builds the command of a task from placeholders, by the rules of GNU
// parallel: {} is the input, {.} the input without its extension, {2} its second
// column, {#} the number of the task. It involves no shell: the value of a
// placeholder stays within one argument, whatever characters it has.
//
// Text that looks like another placeholder of parallel is refused, because it would
// reach the program unchanged: a command such as "convert {} {..}.png" would write
// every result to one file.
package command

import (
	"fmt"
	"strconv"
	"strings"
)

// form is how a placeholder transforms a value.
type form uint8

const (
	literal  form = iota // text, not a placeholder
	whole                // {}
	stem                 // {.}
	base                 // {/}
	folder               // {//}
	baseStem             // {/.}
	number               // {#}
	slotted              // {%}
)

// forms maps the text between the braces, without the column number, to the form.
var forms = map[string]form{
	"": whole, ".": stem, "/": base, "//": folder, "/.": baseStem, "#": number, "%": slotted,
}

// part is a piece of an argument.
type part struct {
	form   form
	column int    // from 1; 0: all of them
	text   string // of a literal
}

// Syntax is the syntax of placeholders.
type Syntax struct {
	// Replace is the only placeholder, and stands for the input. Empty: the
	// placeholders of GNU parallel.
	Replace string
	// Columns is the maximum number of columns of a task; 0: not known.
	Columns int
}

// Template is a command with placeholders. It is safe for concurrent use.
type Template struct {
	args  [][]part
	input bool
}

// Parse parses a command; its first word is the program. It returns all faults of the
// command.
func Parse(words []string, s Syntax) (*Template, []error) {
	t := &Template{}
	var faults []error
	for i, word := range words {
		parts, err := s.parse(word)
		if err == nil && i == 0 && !allLiteral(parts) {
			err = fmt.Errorf("the program is %s, but it must be the same for all tasks; to run each line as a command use: sh -c {}", word)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for _, p := range parts {
			t.input = t.input || p.ofInput()
		}
		t.args = append(t.args, parts)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return t, nil
}

func (p part) ofInput() bool { return p.form >= whole && p.form <= baseStem }

func allLiteral(parts []part) bool {
	for _, p := range parts {
		if p.form != literal {
			return false
		}
	}
	return true
}

// parse splits an argument into its parts.
func (s Syntax) parse(word string) ([]part, error) {
	var parts []part
	text := 0 // start of the literal that is not yet in parts
	add := func(from, to int, p part) {
		if from > text {
			parts = append(parts, part{text: word[text:from]})
		}
		parts = append(parts, p)
		text = to
	}
	for at := 0; at < len(word); {
		p, length, err := s.at(word, at)
		switch {
		case err != nil:
			return nil, err
		case length > 0:
			add(at, at+length, p)
			at += length
		default:
			at++
		}
	}
	if text < len(word) || len(parts) == 0 {
		parts = append(parts, part{text: word[text:]})
	}
	return parts, nil
}

// at parses the placeholder that begins at index at of word; length is 0 if there is
// none.
func (s Syntax) at(word string, at int) (p part, length int, err error) {
	rest := word[at:]
	if s.Replace != "" {
		if strings.HasPrefix(rest, s.Replace) {
			return part{form: whole}, len(s.Replace), nil
		}
		return p, 0, nil
	}
	if rest[0] != '{' {
		return p, 0, nil
	}
	if strings.HasPrefix(rest, "{=") && strings.Contains(rest, "=}") {
		return p, 0, unknown(rest[:strings.Index(rest, "=}")+2], "Perl expressions are not supported")
	}
	end := strings.IndexByte(rest, '}')
	if end < 0 {
		return p, 0, nil
	}
	body := rest[1:end]
	if at > 0 && word[at-1] == '$' && body != "" {
		return p, 0, nil // a shell variable: ${1}, ${#}
	}
	digits := len(body) - len(strings.TrimLeft(body, "0123456789"))
	f, known := forms[body[digits:]]
	switch {
	case known && digits == 0:
		return part{form: f}, end + 1, nil
	case known && f <= baseStem:
		column, err := strconv.Atoi(body[:digits])
		if err == nil && column > 0 && (s.Columns == 0 || column <= s.Columns) {
			return part{form: f, column: column}, end + 1, nil
		}
		return p, 0, unknown(rest[:end+1], s.tooFar(column))
	case resembles(body):
		return p, 0, unknown(rest[:end+1], "the placeholders are {} {.} {/} {//} {/.} {#} {%}, and with a column {1} {2.} {3/} and so on")
	}
	return p, 0, nil
}

// tooFar returns why there is no such column.
func (s Syntax) tooFar(column int) string {
	switch {
	case column == 0:
		return "columns are numbered from 1"
	case s.Columns == 1:
		return "a task has only one column: add --colsep, -n or another ::: for more"
	}
	return fmt.Sprintf("a task has %d columns", s.Columns)
}

// resembles reports whether body, between braces, could be meant as a placeholder: a
// sign, a column and marks as in GNU parallel, and nothing else. Code in braces (awk,
// jq, JSON, Python) has letters, spaces or commas; a shell range {1..9} has a number
// after its marks.
func resembles(body string) bool {
	body = strings.TrimLeft(body, "+-")
	return body != "" && strings.Trim(strings.TrimLeft(body, "0123456789"), "./#%") == ""
}

func unknown(text, why string) error {
	return fmt.Errorf("%s is not a placeholder: %s; to pass it unchanged, add -I {} (then only {} is replaced), or --literal", text, why)
}

// Input reports whether the command has a placeholder for the input. If not, the
// input belongs on standard input.
func (t *Template) Input() bool { return t.input }

// Task has the values for a task's placeholders.
type Task struct {
	Values []string // columns
	Number int64    // {#}
	Slot   int      // {%}
}

// Args returns the command of a task. An argument that is only a placeholder for all
// columns becomes one argument per column; within a longer argument the columns are
// separated by spaces.
func (t *Template) Args(task Task) []string {
	args := make([]string, 0, len(t.args))
	var b strings.Builder
	for _, parts := range t.args {
		if len(parts) == 1 {
			p := parts[0]
			switch {
			case p.form == literal:
				args = append(args, p.text)
				continue
			case p.ofInput() && p.column == 0:
				for _, v := range task.Values {
					args = append(args, p.form.of(v))
				}
				continue
			}
		}
		b.Reset()
		for _, p := range parts {
			p.write(&b, task)
		}
		args = append(args, b.String())
	}
	return args
}

func (p part) write(b *strings.Builder, task Task) {
	switch {
	case p.form == literal:
		b.WriteString(p.text)
	case p.form == number:
		b.WriteString(strconv.FormatInt(task.Number, 10))
	case p.form == slotted:
		b.WriteString(strconv.Itoa(task.Slot))
	case p.column > len(task.Values):
		// A line with fewer columns gives nothing, as in GNU parallel.
	case p.column > 0:
		b.WriteString(p.form.of(task.Values[p.column-1]))
	default:
		for i, v := range task.Values {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(p.form.of(v))
		}
	}
}

// First returns the first placeholder of word that names no column; empty if there is
// none. Braces after a dollar sign belong to the shell.
func First(word string) string {
	for at := range len(word) {
		p, length, err := Syntax{}.at(word, at)
		if err == nil && length > 0 && p.column == 0 {
			return word[at : at+length]
		}
	}
	return ""
}
