package bullpen

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// Stream makes a [Handler] of f, which writes its result to w. If the caller takes a result
// in pieces (its task has a [ChunkObserver]), it receives each write as it is made; else the
// result is what f has written. Write returns the error of ctx once that has ended, and
// [ErrOutput] if the result has more than Limits.Output bytes; f should return them. f may call Write from one goroutine at a
// time, and not after it has returned.
func Stream(f func(ctx context.Context, t Task, w io.Writer) error) Handler {
	return func(ctx context.Context, t Task) ([]byte, error) {
		w := &chunkWriter{ctx: ctx, limit: t.Limits.Output}
		w.observer, _ = t.Observer.(ChunkObserver)
		if err := f(ctx, t, w); err != nil {
			return nil, err
		}
		return w.collected.Bytes(), nil
	}
}

// chunkWriter is the writer of one task.
type chunkWriter struct {
	ctx       context.Context //nolint:containedctx // io.Writer has none
	observer  ChunkObserver   // nil to collect
	limit     int             // largest result, 0 for none
	size      int
	collected bytes.Buffer
}

// Write passes p on, or keeps it.
func (w *chunkWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	w.size += len(p)
	switch {
	case w.limit > 0 && w.size > w.limit:
		return 0, fmt.Errorf("%w: it has more than %d bytes", ErrOutput, w.limit)
	case w.observer != nil:
		w.observer.Chunk(p)
	default:
		w.collected.Write(p)
	}
	return len(p), nil
}
