package access

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestReadBody reads bodies of known and unknown length up to a bound.
func TestReadBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes        int
		length, most int64
		large        bool
	}{
		{0, 0, 10, false}, {10, 10, 10, false}, {10, -1, 10, false}, {11, 11, 10, true}, {11, -1, 10, true},
		{1 << 20, 1 << 20, 1 << 20, false}, {1 << 20, -1, 1 << 20, false}, {10, 20, 10, true},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", c.bytes)))
		r.ContentLength = c.length
		body, err := ReadBody(r, c.most)
		var large *http.MaxBytesError
		if errors.As(err, &large) != c.large || !c.large && (err != nil || len(body) != c.bytes) {
			t.Errorf("%+v: %d bytes, %v", c, len(body), err)
		}
	}
}
