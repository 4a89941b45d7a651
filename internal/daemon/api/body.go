package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// firstRead is the size of the first buffer for a body of unknown length.
const firstRead = 4 << 10

// readBody reads a whole body of up to most bytes; name and todo describe the bound
// in the problem. If the length is known, the buffer grows up to it, but starts
// smaller, so that a false length costs little memory. The whole buffer, not just the
// bytes read, counts towards http.max_inflight.
func readBody(r *http.Request, most int64, name, todo string) ([]byte, *problem.Problem) {
	if r.ContentLength > most {
		return nil, tooLarge(most, name, todo)
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
			if err := access.Grow(r, room); err != nil {
				return nil, brokenBody(err)
			}
			larger := make([]byte, len(body), room)
			copy(larger, body)
			body = larger
		}
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > most:
			return nil, tooLarge(most, name, todo)
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, brokenBody(err)
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

func tooLarge(most int64, name, todo string) *problem.Problem {
	return problem.New(problem.TooLarge, "The body has more than the "+strconv.FormatInt(most, 10)+" bytes that "+name+" allows: "+todo+".")
}

func brokenBody(err error) *problem.Problem {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return tooLarge(large.Limit, "http.max_body", "send less, or raise it in bullpen.yaml")
	}
	return problem.New(problem.BadRequest, "The body could not be read to its end ("+err.Error()+"): send it again.")
}

// checkType checks the content type of a body against the accepted ones. The header
// is optional.
func checkType(r *http.Request, want ...string) *problem.Problem {
	header := first(r.Header, headerType)
	if header == "" {
		return nil
	}
	if is, _, err := mime.ParseMediaType(header); err == nil && slices.Contains(want, is) {
		return nil
	}
	return problem.New(problem.MediaType, fmt.Sprintf("The body has the media type %s: send %s and say so with the header Content-Type.", quoted(header), want[0]))
}
