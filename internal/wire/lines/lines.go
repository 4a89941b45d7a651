// Package lines is the protocol for workers that are plain filters: one line in, one line
// out. Several lines may be in flight; an answer belongs to the oldest.
package lines

import (
	"bytes"
	"fmt"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

// Codec writes and reads lines. End is the byte that ends a line: a line feed or NUL.
// Limit is the longest answer, in bytes.
type Codec struct {
	End   byte
	Limit int
}

// Check refuses a payload that would span more than one line.
func (c *Codec) Check(t *bullpen.Task) error {
	if bytes.IndexByte(t.Payload, c.End) < 0 {
		return nil
	}
	name := "a line feed"
	if c.End == 0 {
		name = "a NUL byte"
	}
	return fmt.Errorf("%w: the payload contains %s and would be more than one line: use the protocol frames or exec", bullpen.ErrRefused, name)
}

// AppendTask appends the payload as a line.
func (c *Codec) AppendTask(out []byte, t wire.Task) []byte {
	return append(append(out, t.Task.Payload...), c.End)
}

// Next splits off the first line of in. n is 0 if in holds no complete line; need is then
// one byte more than there are.
func (c *Codec) Next(in []byte) (m wire.Message, n, need int, err error) {
	i := bytes.IndexByte(in, c.End)
	if i > c.Limit || i < 0 && len(in) > c.Limit {
		return m, 0, 0, fmt.Errorf("%w: it is longer than %d bytes", wire.ErrLong, c.Limit)
	}
	if i < 0 {
		return m, 0, len(in) + 1, nil
	}
	return wire.Message{Kind: protocol.Result, Body: in[:i]}, i + 1, 0, nil
}
