package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bullpen-run/bullpen/process"
)

// writer writes results: to standard output, or to one file each.
type writer struct {
	options *options
	out     *bufio.Writer
	end     byte // end of a result
	line    []byte
	folders map[string]bool // created so far, below --results
	rooted  bool            // an absolute name was seen
	plain   bool            // a relative name was seen
	broken  error           // the first error of out
}

func newWriter(o *options, out io.Writer) (*writer, error) {
	w := &writer{options: o, out: bufio.NewWriterSize(out, 64<<10), end: '\n', folders: map[string]bool{}}
	if o.null {
		w.end = 0
	}
	if o.results != "" {
		if err := os.MkdirAll(o.results, 0o777); err != nil { //nolint:gosec // the umask decides, as it does for > in a shell
			return nil, fmt.Errorf("--results: %w", err)
		}
	}
	return w, nil
}

// write writes the result of an ended item; in text output, a failed item has none.
func (w *writer) write(it *item) error {
	if w.broken != nil {
		return w.broken
	}
	file := ""
	if w.options.results != "" && it.err == nil {
		var err error
		if file, err = w.keep(it); err != nil {
			return err
		}
	}
	switch {
	case w.options.output == "json":
		w.line = append(w.object(w.line[:0], it, file), w.end)
		_, w.broken = w.out.Write(w.line)
	case it.err == nil && w.options.results == "":
		w.broken = w.text(it)
	}
	return w.broken
}

// text writes a result unchanged. It adds no second line feed to a result that ends
// with one.
func (w *writer) text(it *item) error {
	b := it.result.Payload
	if len(b) == 0 && w.options.protocol == process.Exec {
		return nil // a process without output
	}
	if w.options.tag {
		b = tagged(it.line, b)
	}
	if _, err := w.out.Write(b); err != nil {
		return err
	}
	if w.end == '\n' && len(b) > 0 && b[len(b)-1] == '\n' {
		return nil
	}
	return w.out.WriteByte(w.end)
}

// tagged adds a tag before each line.
func tagged(tag, text []byte) []byte {
	out := make([]byte, 0, len(tag)+1+len(text))
	for {
		line, rest, more := bytes.Cut(text, []byte{'\n'})
		out = append(append(append(out, tag...), '\t'), line...)
		if more {
			out = append(out, '\n')
		}
		if len(rest) == 0 {
			return out
		}
		text = rest
	}
}

func (w *writer) flush() error {
	if w.broken == nil {
		w.broken = w.out.Flush()
	}
	return w.broken
}

// keep writes a result to its file and returns the file's name. The file appears only
// when it is complete.
func (w *writer) keep(it *item) (string, error) {
	name, err := w.nameOf(it)
	if err != nil {
		return "", err
	}
	name = filepath.Join(w.options.results, name)
	if folder := filepath.Dir(name); !w.folders[folder] {
		if err := os.MkdirAll(folder, 0o777); err != nil { //nolint:gosec // the umask decides, as it does for > in a shell
			return "", fmt.Errorf("--results: %w", err)
		}
		w.folders[folder] = true
	}
	part := filepath.Join(w.options.results, fmt.Sprintf(".part-%d", os.Getpid()))
	if err := os.WriteFile(part, it.result.Payload, 0o666); err != nil { //nolint:gosec // the umask decides, as it does for > in a shell
		return "", errors.Join(fmt.Errorf("--results: %w", err), os.Remove(part))
	}
	if err := os.Rename(part, name); err != nil {
		return "", errors.Join(fmt.Errorf("--results: %w", err), os.Remove(part))
	}
	return name, nil
}

// nameOf returns the path of an item's result below --results: its number, or the
// name of its file.
func (w *writer) nameOf(it *item) (string, error) {
	if it.name == nil {
		return fmt.Sprintf("%09d", it.index), nil
	}
	name := string(it.name)
	if filepath.IsAbs(name) {
		w.rooted = true
	} else {
		w.plain = true
	}
	if w.rooted && w.plain {
		return "", fmt.Errorf("--results: some file names are absolute and some relative, so results could overwrite each other: use only one kind; the first of the other kind is %q", name)
	}
	return safeName(name), nil
}

// safeName converts a file's name to a relative name that stays below its folder:
// ".." becomes %2E%2E. Different files get different names.
func safeName(name string) string {
	name = filepath.Clean(name)
	name = strings.TrimPrefix(name[len(filepath.VolumeName(name)):], string(filepath.Separator))
	steps := strings.Split(name, string(filepath.Separator))
	for i, s := range steps {
		s = strings.ReplaceAll(s, "%", "%25")
		if s == ".." {
			s = "%2E%2E"
		}
		steps[i] = s
	}
	return filepath.Join(steps...)
}
