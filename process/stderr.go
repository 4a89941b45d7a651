package process

import (
	"bytes"
	"io"
	"strings"

	"github.com/bullpen-run/bullpen"
)

// StderrObserver is what the Observer of a task may be too. With Exec it then gets all
// that the process of the task writes to standard error, as it is, and neither Log nor
// the logger gets it by the line.
type StderrObserver interface {
	bullpen.Observer
	// Stderr gets the next piece: of less than 64 KiB when the process has ended, and
	// before that whenever there is more. It is called before the outcome is told, and
	// must not keep text. The process waits when it blocks.
	Stderr(text []byte)
}

// stderrPiece is how much of standard error is held while the process runs.
const stderrPiece = 64 << 10

// hearAll hands what comes from standard error to the observer of the task.
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

// remember keeps the last lines of b.
func (o *oneShot) remember(b []byte) {
	b = bytes.TrimRight(b[max(0, len(b)-tailBytes):], "\n")
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		o.tail.add(strings.ToValidUTF8(string(bytes.TrimRight(line, "\r")), "\uFFFD"))
	}
}
