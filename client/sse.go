package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// frame is one server-sent event, or a comment.
type frame struct {
	// id is that of the last event that had one.
	id      string
	kind    string
	data    []byte
	comment bool // then data is its text
}

// frames reads server-sent events. What it gives is valid until the next read.
type frames struct {
	lines *bufio.Reader
	most  int64 // bytes of one event

	id   string
	kind string
	data []byte
	some bool // there is data
	line []byte
}

func newFrames(r io.Reader, most int64) *frames {
	return &frames{lines: bufio.NewReaderSize(r, 16<<10), most: most}
}

// next returns the next event or comment. An event that the stream's end cuts off
// is none.
func (f *frames) next() (frame, error) {
	f.kind, f.data, f.some = "", f.data[:0], false
	for {
		line, err := f.readLine()
		if err != nil {
			return frame{}, err
		}
		if len(line) == 0 {
			if f.some {
				return frame{id: f.id, kind: f.kind, data: f.data}, nil
			}
			f.kind = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "":
			if !f.some && f.kind == "" {
				return frame{id: f.id, data: value, comment: true}, nil
			}
		case "event":
			f.kind = string(value)
		case "id":
			if !bytes.ContainsRune(value, 0) {
				f.id = string(value)
			}
		case "data":
			if f.some {
				f.data = append(f.data, '\n')
			}
			f.data, f.some = append(f.data, value...), true
			if int64(len(f.data)) > f.most {
				return frame{}, f.tooLarge()
			}
		}
	}
}

func (f *frames) tooLarge() error {
	return &Error{Cause: causeTooLarge, Detail: fmt.Sprintf("an event has more than %d bytes: raise Config.MaxResult", f.most)}
}

// readLine reads a line without its end.
func (f *frames) readLine() ([]byte, error) {
	f.line = f.line[:0]
	for {
		part, err := f.lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if err == nil && len(f.line) == 0 {
			return trimEnd(part), nil
		}
		f.line = append(f.line, part...)
		if int64(len(f.line)) > f.most+lineSlack {
			return nil, f.tooLarge()
		}
		if err == nil {
			return trimEnd(f.line), nil
		}
	}
}

// lineSlack is what a line has besides its data.
const lineSlack = 16

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
