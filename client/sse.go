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
	// id is the last event id seen, as SSE defines it.
	id      string
	kind    string
	data    []byte
	comment bool // data is the comment's text
}

// frames reads server-sent events. A frame is valid until the next read.
type frames struct {
	lines *bufio.Reader
	most  int64 // maximum size of one event, in bytes

	id   string
	kind string
	data []byte
	some bool // data was set
	line []byte
}

func newFrames(r io.Reader, most int64) *frames {
	return &frames{lines: bufio.NewReaderSize(r, 16<<10), most: most}
}

// next returns the next event or comment. It drops an event that is cut off by the
// end of the stream.
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

// readLine reads a line, without its line ending.
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

// lineSlack is the room on a line for more than its data, in bytes.
const lineSlack = 16

func trimEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
