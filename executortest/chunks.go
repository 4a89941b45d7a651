package executortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bullpen-run/bullpen"
)

// handleStream streams so many numbers. If the payload goes on after the number, it then
// fails.
func handleStream(_ context.Context, t bullpen.Task, w io.Writer) error {
	count, fails, _ := strings.Cut(string(t.Payload), " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	for i := range n {
		if _, err := fmt.Fprintln(w, i); err != nil {
			return err
		}
	}
	if fails != "" {
		return errors.New("in the middle")
	}
	return nil
}

// collector is the observer of a task whose caller takes the result in pieces.
type collector struct {
	mu    sync.Mutex
	all   []byte // guarded by mu
	ended bool   // guarded by mu
	late  int    // pieces after the outcome; guarded by mu
}

// Progress does nothing.
func (c *collector) Progress(float64, string) {}

// Log does nothing.
func (c *collector) Log(bullpen.LogLine) {}

// Chunk keeps the piece.
func (c *collector) Chunk(piece []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, piece...)
	if c.ended {
		c.late++
	}
}

// end returns what has come until the outcome.
func (c *collector) end() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	return slices.Clone(c.all)
}

// collect runs a task with a collector.
func (s *subject) collect(t bullpen.Task) (pieces []byte, c *collector, r bullpen.Result, err error) {
	s.t.Helper()
	c = &collector{}
	t.Observer = c
	got := make(chan []byte, 1)
	a, err := s.submit(s.t.Context(), t, func(bullpen.Result, error) { got <- c.end() })
	if err != nil {
		return nil, c, r, err
	}
	r, err = a.wait(s.t)
	return <-got, c, r, err
}

// testChunks: whether and how an executor streams, the pieces and the payload are the
// result, once.
func testChunks(t *testing.T, f Factory) {
	s := f.open(t, Options{})
	var seen []*collector
	for _, n := range []string{"0", "1", "3", "300", "50000"} {
		k := task("stream", n)
		want, err := Handlers()["stream"](t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.run(k); err != nil || !bytes.Equal(r.Payload, want) {
			t.Errorf("%s numbers gave %d bytes, %v, want %d", n, len(r.Payload), err, len(want))
		}
		pieces, c, r, err := s.collect(k)
		seen = append(seen, c)
		if len(pieces) > 0 && len(r.Payload) > 0 {
			t.Errorf("%s numbers in pieces of %d bytes, and a payload of %d: want one of the two", n, len(pieces), len(r.Payload))
		}
		if all := append(pieces, r.Payload...); err != nil || !bytes.Equal(all, want) {
			t.Errorf("%s numbers in pieces gave %d bytes, %v, want %d", n, len(all), err, len(want))
		}
	}
	_, c, r, err := s.collect(task("stream", "3 fail"))
	wantOutcome(t, err, bullpen.Failed)
	if seen = append(seen, c); r.Payload != nil {
		t.Errorf("a failed task has the payload %q", r.Payload)
	}
	large := task("stream", "1000")
	large.Limits.Output = 1000
	_, err = s.run(large)
	wantOutcome(t, err, bullpen.Output)
	pieces, c, _, err := s.collect(large)
	wantOutcome(t, err, bullpen.Output)
	if seen = append(seen, c); len(pieces) > 1000 {
		t.Errorf("pieces of %d bytes, above the limit of 1000", len(pieces))
	}
	s.works()
	for _, c := range seen {
		c.mu.Lock()
		if c.late > 0 {
			t.Errorf("%d pieces came after the outcome", c.late)
		}
		c.mu.Unlock()
	}
}
