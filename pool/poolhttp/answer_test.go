package poolhttp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/pool"
)

// TestStreams: what is flushed arrives while the handler runs, trailers and early
// hints arrive too.
func TestStreams(t *testing.T) {
	t.Parallel()
	l := lane(t, open(t, pool.Config{}), pool.LaneConfig{})
	read := make(chan struct{})
	s := serve(t, wrap(t, Config{Target: l}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum, X-Other")
		c := http.NewResponseController(w)
		for _, err := range []error{c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{}), c.EnableFullDuplex()} {
			if err != nil {
				t.Error(err)
			}
		}
		if _, _, err := c.Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("hijack: %v", err)
		}
		fmt.Fprintln(w, "first")
		w.(http.Flusher).Flush() //nolint:forcetypeassert // this is what is tested
		<-read
		fmt.Fprintln(w, "second")
		w.Header().Set("X-Sum", "2")
		w.Header().Set(http.TrailerPrefix+"X-Late", "3")
		w.Header().Set("X-No", "trailer")
	}))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewReader(resp.Body)
	if line, err := lines.ReadString('\n'); line != "first\n" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	close(read)
	rest, err := io.ReadAll(lines)
	if string(rest) != "second\n" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	if tr := resp.Trailer; tr.Get("X-Sum") != "2" || tr.Get("X-Late") != "3" || tr.Get("X-No") != "" {
		t.Errorf("trailers: %v", tr)
	}
}

// TestSlowReader: an answer in the buffer does not hold the place while a client
// reads it slowly, and a streamed one to a client that does not read is broken off
// at the deadline.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	l := lane(t, open(t, pool.Config{}), pool.LaneConfig{Limit: 1, Timeout: 200 * time.Millisecond})
	returned := make(chan error, 1)
	s := serve(t, wrap(t, Config{Target: l, Buffer: 100}, func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				returned <- err
				return
			}
		}
	}))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(r) // reads the header only
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	<-returned
	until(t, "the place is free", func() bool { return l.Stats().Running == 0 })
	if _, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Error("the client took half an answer for a whole one")
	}
}
