package wire

import (
	"errors"
	"io"
)

// pieceSize is the largest piece of a result that streams.
const pieceSize = 32 << 10

// CopyChunks passes what it reads on as it comes, up to limit bytes. It returns how much it
// has read: more than limit if there was more.
func CopyChunks(chunk func([]byte), from io.Reader, limit int) (size int, err error) {
	piece := make([]byte, pieceSize)
	for {
		n, err := from.Read(piece)
		if n = min(n, limit+1-size); n > 0 {
			size += n
			if size > limit {
				return size, nil
			}
			chunk(piece[:n])
		}
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return size, err
		}
	}
}
