package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// version is the version of the lines.
const version = 1

// longestLine is enough for a job of 64 MiB.
const longestLine = 128 << 20

// line is one line: the first has Version, the last End, and each line between them has
// an item.
//
//	{"version":1}
//	{"stream":"jobs","subject":"job.mails.normal.01KAG…","data":"AQ…"}
//	{"end":{"jobs":1,"scheduled":0,"outcomes":0,"dead":0,"state":0,"paused":0}}
type line struct {
	Version int `json:"version,omitempty"`
	item
	End *Summary `json:"end,omitempty"`
}

// Export writes everything a store holds as lines of JSON: names of streams and subjects,
// times, and the records of the store in base64. Each line names the queue, priority and
// job it belongs to; the last line has the counts of each kind.
func Export(ctx context.Context, from engine.Engine, w io.Writer) (Summary, error) {
	b := bufio.NewWriterSize(w, 1<<20)
	l := &writer{b, json.NewEncoder(b)}
	l.encode.SetEscapeHTML(false)
	if err := l.encode.Encode(line{Version: version}); err != nil {
		return Summary{}, err
	}
	return read(ctx, from, l)
}

type writer struct {
	to     *bufio.Writer
	encode *json.Encoder
}

func (w *writer) put(i item) error { return w.encode.Encode(line{item: i}) }

func (w *writer) finish(s Summary) error {
	return errors.Join(w.encode.Encode(line{End: &s}), w.to.Flush())
}

// Import puts what Export has written into a store, which must be empty. If it fails, the
// store holds a part.
func Import(ctx context.Context, r io.Reader, to engine.Engine) (Summary, error) {
	if err := empty(ctx, to); err != nil {
		return Summary{}, err
	}
	return fill(r, newFiller(ctx, to))
}

// fill reads lines and puts them into a sink.
func fill(r io.Reader, to sink) (s Summary, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), longestLine)
	n := 0
	for lines.Scan() {
		n++
		l, err := readLine(lines.Bytes())
		switch {
		case err != nil:
		case n == 1 && l.Version == 0:
			err = errors.New(`it is not an export: its first line is not {"version":1}`)
		case l.Version > version:
			err = fmt.Errorf("the export has version %d, of a newer release; this release reads version %d", l.Version, version)
		case n > 1 && l.Version != 0:
			err = errors.New("a second export begins here: import one file at a time")
		case l.End != nil && *l.End != s:
			err = fmt.Errorf("the export has lost lines: it has %+v, but should have %+v", s, *l.End)
		case l.End != nil && lines.Scan():
			err = errors.New("there is data after the end of the export")
		case l.End != nil:
			return s, to.finish(s)
		case n > 1:
			err = s.add(l.item, to)
		}
		if err != nil {
			return s, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return s, fmt.Errorf("line %d: %w", n+1, err)
	}
	return s, fmt.Errorf("the export is truncated after line %d: its last line, with the counts, is missing", n)
}

func readLine(text []byte) (l line, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return l, fmt.Errorf("it is not a line of an export: %w", err)
	}
	if d.More() {
		return l, errors.New("it has more than one object")
	}
	return l, nil
}

// add counts an item and passes it on.
func (s *Summary) add(i item, to sink) error {
	if i.Paused != nil {
		s.Paused++
		return to.put(i)
	}
	switch i.Stream {
	case engine.Jobs.String():
		s.Jobs++
		if i.At != nil {
			s.Scheduled++
		}
	case engine.Outcomes.String():
		s.Outcomes++
	case engine.Dead.String():
		s.Dead++
	case engine.State.String():
		s.State++
	}
	return to.put(i)
}
