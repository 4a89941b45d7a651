package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/bullpen-run/bullpen/process"
)

// listMark separates the command from a list of tasks, as in GNU parallel.
const listMark = ":::"

// source returns the records of an input. The slice is valid until the next call; the
// last records come with io.EOF.
type source interface{ next() ([]record, error) }

// cutLists separates the lists of tasks from the command.
func cutLists(args []string) (command []string, lists [][]string, err error) {
	command = args
	if i := slices.Index(args, listMark); i >= 0 {
		command = args[:i]
		for _, word := range args[i:] {
			if word == listMark {
				lists = append(lists, nil)
				continue
			}
			lists[len(lists)-1] = append(lists[len(lists)-1], word)
		}
	}
	for _, word := range args {
		switch word {
		case "::::", "::::+":
			return nil, nil, fmt.Errorf("%s is not supported: name a file of tasks with -a FILE, which may be repeated", word)
		case ":::+":
			return nil, nil, fmt.Errorf("%s is not supported: write lines with columns and use --colsep, or use -n to take several lines at a time", word)
		}
	}
	return command, lists, nil
}

// sources opens the inputs: the files of -a and the lists after :::, or else standard
// input. Several inputs are combined, the last one changing fastest.
func (o *options) sources(stdin io.Reader) (source, func(), error) {
	end := o.lineEnd()
	closeAll := func() {}
	var first source
	lists := o.lists
	switch {
	case len(o.argFiles) > 0:
		in, done, err := openInput(o.argFiles[0], stdin)
		if err != nil {
			return nil, nil, err
		}
		first, closeAll = newSplitter(in, end, int(o.maxLine)), done
	case len(lists) > 0:
		first, lists = newList(lists[0]), lists[1:]
	default:
		first = newSplitter(stdin, end, int(o.maxLine))
	}
	rest, err := o.readLists(stdin)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	if rest = append(rest, lists...); len(rest) > 0 {
		first = &product{first: first, lists: rest, end: end, limit: int(o.maxLine)}
	}
	if o.perTask > 1 {
		first = &bundles{from: first, size: o.perTask, end: end, limit: int(o.maxLine)}
	}
	return first, closeAll, nil
}

func (o *options) lineEnd() byte {
	if o.null {
		return 0
	}
	return '\n'
}

// openInput opens a file of tasks; - is standard input.
func openInput(name string, stdin io.Reader) (io.Reader, func(), error) {
	if name == "-" {
		return stdin, func() {}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("-a: %w", err)
	}
	return file, func() { _ = file.Close() }, nil
}

// readLists reads all files of -a except the first, which is read as tasks are
// needed.
func (o *options) readLists(stdin io.Reader) (lists [][]string, err error) {
	if len(o.argFiles) < 2 {
		return nil, nil
	}
	left := int64(aheadBytes)
	for _, name := range o.argFiles[1:] {
		in, done, err := openInput(name, stdin)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(in, left+1))
		done()
		if err != nil {
			return nil, fmt.Errorf("-a %s: %w", name, err)
		}
		if left -= int64(len(text)); left < 0 {
			return nil, fmt.Errorf("-a %s: all files but the first are held in memory, and these have more than %s: name the longest file first", name, sizeText(aheadBytes))
		}
		end := string(rune(o.lineEnd()))
		all := strings.TrimSuffix(string(text), end)
		var list []string
		if len(text) > 0 {
			list = strings.Split(all, end)
		}
		lists = append(lists, list)
	}
	return lists, nil
}

// list is a source of texts in memory.
type list struct{ records []record }

func newList(texts []string) *list {
	l := &list{}
	for _, t := range texts {
		l.records = append(l.records, record{text: []byte(t)})
	}
	return l
}

func (l *list) next() ([]record, error) {
	all := l.records
	l.records = nil
	return all, io.EOF
}

// productMost is the maximum number of combinations that product returns at a time.
const productMost = 1024

// product combines each record of a source with all texts of some lists.
type product struct {
	first source
	lists [][]string
	end   byte
	limit int

	records []record // of first, not yet used
	err     error    // of first
	at      []int    // positions in lists of the next combination with records[0]; nil: the first
	out     []record
}

func (p *product) next() ([]record, error) {
	for len(p.records) == 0 && p.err == nil {
		p.records, p.err = p.first.next()
	}
	p.out = p.out[:0]
	for len(p.records) > 0 && len(p.out) < productMost {
		if p.at == nil {
			p.at = make([]int, len(p.lists))
		}
		r := p.records[0]
		var more bool
		switch {
		case slices.ContainsFunc(p.lists, func(l []string) bool { return len(l) == 0 }):
			more = false // there are no combinations
		case r.size > 0:
			p.out = append(p.out, r)
			more = false
		default:
			values := []string{string(r.text)}
			for i, l := range p.lists {
				values = append(values, l[p.at[i]])
			}
			p.out = append(p.out, joined(values, p.end, p.limit))
			more = p.step()
		}
		if !more {
			p.records, p.at = p.records[1:], nil
		}
	}
	if len(p.records) > 0 {
		return p.out, nil
	}
	return p.out, p.err
}

// step advances to the next combination, and reports whether there is one.
func (p *product) step() bool {
	for i := range slices.Backward(p.at) {
		if p.at[i]++; p.at[i] < len(p.lists[i]) {
			return true
		}
		p.at[i] = 0
	}
	return false
}

// bundles groups several records into one.
type bundles struct {
	from  source
	size  int
	end   byte
	limit int

	values  []string
	lines   int
	tooLong int64
	out     []record
}

func (b *bundles) next() ([]record, error) {
	records, err := b.from.next()
	b.out = b.out[:0]
	for _, r := range records {
		b.lines++
		b.tooLong += r.size
		b.values = append(b.values, r.columns()...)
		if b.lines == b.size {
			b.seal()
		}
	}
	if err != nil && b.lines > 0 {
		b.seal() // the last one may have fewer
	}
	return b.out, err
}

func (b *bundles) seal() {
	if b.tooLong > 0 {
		b.out = append(b.out, record{size: b.tooLong})
	} else {
		b.out = append(b.out, joined(b.values, b.end, b.limit))
	}
	b.values, b.lines, b.tooLong = nil, 0, 0
}

// joined returns the record of a task with several values. On standard input each
// value is a line.
func joined(values []string, end byte, limit int) record {
	text := strings.Join(values, string(rune(end)))
	if len(text) > limit {
		return record{size: int64(len(text))}
	}
	return record{text: []byte(text), values: values}
}

// columns returns the values of a record.
func (r record) columns() []string {
	if r.values != nil {
		return r.values
	}
	return []string{string(r.text)}
}

// checkInput checks the flags about inputs.
func (o *options) checkInput(bad *faults) {
	several := o.perTask > 1 || len(o.argFiles)+len(o.lists) > 1
	switch {
	case o.protocol == process.Lines && several:
		bad.add("-n, and more than one -a or :::, give a task several values, but --protocol lines takes one line: use -p exec or -p frames")
	case several && (o.files || o.json):
		bad.add("-n, and more than one -a or :::, exclude --files and --json, which take one value per task")
	}
	if o.colsep != nil && (o.protocol != process.Exec || o.template == nil || !o.template.Input()) {
		bad.add("--colsep cuts a line into {1}, {2} and so on (--protocol exec), but the command has no such placeholder")
	}
	if o.colsep != nil && o.files {
		bad.add("--colsep and --files exclude each other: the line names one file")
	}
	if i := slices.Index(o.argFiles, "-"); i >= 0 && slices.Contains(o.argFiles[i+1:], "-") {
		bad.add("-a -: standard input can be read only once")
	}
	for _, l := range o.lists {
		for _, text := range l {
			if o.null && bytes.IndexByte([]byte(text), 0) >= 0 || !o.null && o.protocol == process.Lines && strings.ContainsRune(text, '\n') {
				bad.add("::: %q: --protocol lines takes one line a task", text)
			}
		}
	}
}
