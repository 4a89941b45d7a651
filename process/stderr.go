package process

import (
	"bytes"
	"io"
	"strings"

	"github.com/bullpen-run/bullpen"
)

// StderrObserver is an optional interface of a task's Observer. With Exec, it receives
// the standard error of the process unchanged; then Log and the logger receive no lines
// of it.
type StderrObserver interface {
	bullpen.Observer
	// Stderr receives the next piece of text. Pieces are less than 64 KiB; the last one
	// comes when the process has ended. Stderr is called before the outcome is
	// delivered, and must not retain text. While it blocks, the process may have to
	// wait.
	Stderr(text []byte)
}

// stderrPiece bounds how much standard error is buffered while the process runs.
const stderrPiece = 64 << 10

// hearAll passes standard error to the observer of the task.
func (o *oneShot) hearAll(from io.Reader, to StderrObserver) {
	var held []byte
	chunk := make([]byte, 4<<10)
	tell := func(b []byte) {
		if len(b) > 0 {
			o.remember(b)
			to.Stderr(b)
		}
	}
	for {
		n, err := from.Read(chunk)
		o.wrote += n
		held = append(held, chunk[:n]...)
		if err != nil {
			tell(held)
			return
		}
		if len(held) < stderrPiece-len(chunk) {
			continue
		}
		whole := bytes.LastIndexByte(held, '\n') + 1
		if whole == 0 {
			whole = len(held)
		}
		tell(held[:whole])
		held = append(held[:0], held[whole:]...)
	}
}

// remember adds the last lines of b to the tail.
func (o *oneShot) remember(b []byte) {
	b = bytes.TrimRight(b[max(0, len(b)-tailBytes):], "\n")
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		o.tail.add(strings.ToValidUTF8(string(bytes.TrimRight(line, "\r")), "\uFFFD"))
	}
}
