package api

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

// readBody reads a whole body of up to most bytes; name and todo describe the bound
// in the problem.
func readBody(r *http.Request, most int64, name, todo string) ([]byte, *problem.Problem) {
	body, err := access.ReadBody(r, most)
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &large) && large.Limit == most:
		return nil, tooLarge(most, name, todo)
	}
	return nil, brokenBody(err)
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
