package access

import (
	"errors"
	"io"
	"net/http"
)

// firstRead is the size of the first buffer for a body of unknown length.
const firstRead = 4 << 10

// ReadBody reads a whole body of up to most bytes; the error of a larger one is a
// *[http.MaxBytesError]. If the length is known, the buffer grows up to it, but starts
// smaller, so that a false length costs little memory. The whole buffer, not just the
// bytes read, counts towards http.max_inflight.
func ReadBody(r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength > most {
		return nil, &http.MaxBytesError{Limit: most}
	}
	if r.ContentLength == 0 || r.Body == nil {
		return nil, nil
	}
	room := int64(firstRead)
	if r.ContentLength > 0 {
		room = min(r.ContentLength+1, 256<<10) // one byte more, to reach io.EOF
	}
	body := make([]byte, 0, room)
	for {
		if len(body) == cap(body) {
			room := nextRoom(len(body), r.ContentLength)
			if err := Grow(r, room); err != nil {
				return nil, err
			}
			larger := make([]byte, len(body), room)
			copy(larger, body)
			body = larger
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > most:
			return nil, &http.MaxBytesError{Limit: most}
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// nextRoom returns the next buffer size after come bytes: sixteen times as much if
// the length is known, so that little is copied, and twice as much otherwise.
func nextRoom(come int, length int64) int64 {
	if length >= int64(come) {
		return min(16*int64(come), length+1)
	}
	return 2 * int64(come)
}
