package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"

	"github.com/bullpen-run/bullpen/internal/daemon/guard"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// firstRead is how much is made ready for a body that does not tell its length.
const firstRead = 4 << 10

// readBody reads a whole body of most bytes at most; name and todo say what has
// that bound. A body that tells its length is read into a slice of it, at first
// of a part, so that a length alone costs little memory. What it makes room for in
// memory counts among all bodies (http.max_inflight), and not only what has come.
func readBody(r *http.Request, most int64, name, todo string) ([]byte, *problem.Problem) {
	if r.ContentLength > most {
		return nil, tooLarge(most, name, todo)
	}
	if r.ContentLength == 0 || r.Body == nil {
		return nil, nil
	}
	room := int64(firstRead)
	if r.ContentLength > 0 {
		room = min(r.ContentLength+1, 256<<10) // one more, to be told of the end
	}
	body := make([]byte, 0, room)
	for {
		if len(body) == cap(body) {
			room := nextRoom(len(body), r.ContentLength)
			if err := guard.Grow(r, room); err != nil {
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

// nextRoom is how much is made ready for a body of which so much has come: sixteen
// times as much where it has told its length, so that little is copied, and twice
// otherwise.
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

// checkType holds the type of a body against those that are taken; a request may
// leave it out.
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
