//go:build unix

package process

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/bullpen-run/bullpen"
)

// pieces is an observer that keeps a result that streams.
type pieces struct {
	notes

	mu   sync.Mutex
	all  []string // guarded by mu
	seen chan struct{}
}

func (p *pieces) Chunk(piece []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, string(piece))
	if p.seen != nil {
		p.seen <- struct{}{}
	}
}

// TestHTTPChunks: a body that streams comes in pieces, while the handler still runs.
func TestHTTPChunks(t *testing.T) {
	t.Parallel()
	p := webPool(t, func(c *Config) { c.Limits.Output = 100 })
	step := t.TempDir() + "/step"
	got := &pieces{seen: make(chan struct{}, 10)}
	ended := make(chan error, 1)
	if err := p.Submit(t.Context(), bullpen.Task{Name: "stream", Payload: []byte(step), Observer: got}, func(r bullpen.Result, err error) {
		if len(r.Payload) > 0 {
			err = errors.Join(err, fmt.Errorf("the payload is %q", r.Payload))
		}
		ended <- err
	}); err != nil {
		t.Fatal(err)
	}
	<-got.seen
	create(t, step) // the handler waits for it
	if err := <-ended; err != nil || strings.Join(got.all, "|") != "first|second" {
		t.Errorf("%q, %v", got.all, err)
	}
	create(t, step)
	r, err := p.Execute(t.Context(), bullpen.Task{Name: "stream", Payload: []byte(step)})
	if err != nil || string(r.Payload) != "firstsecond" {
		t.Errorf("without an observer for pieces: %q, %v", r.Payload, err)
	}
	for name, want := range map[string]bullpen.Outcome{"flood": bullpen.Output, "stream-and-hang-up": bullpen.Protocol} {
		_, err := p.Execute(t.Context(), bullpen.Task{Name: name, Observer: &pieces{}})
		_ = wantOutcome(t, err, want)
	}
}

// TestLambdaChunks: a response that streams comes in pieces, and its error in the end.
func TestLambdaChunks(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, runtime string) {
		t.Helper()
		p := functionOn(t, runtime, "stream", nil)
		for _, c := range []struct {
			event, want, fault string
		}{
			{`"a,b,c"`, "a,b,c", ""},
			{`"fail"`, "begun ", "in the middle"},
		} {
			if runtime == "rust" && c.fault != "" {
				continue // the client writes the error into the response, as text
			}
			got := &pieces{}
			r, err := p.Execute(t.Context(), bullpen.Task{Payload: []byte(c.event), Observer: got})
			if all := withoutHead(strings.Join(got.all, "")); all != c.want || len(r.Payload) > 0 || (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s: %q %q, %v", c.event, all, r.Payload, err)
			}
		}
		if r, err := p.Execute(t.Context(), bullpen.Task{Payload: []byte(`"a,b"`)}); err != nil || withoutHead(string(r.Payload)) != "a,b" {
			t.Errorf("without an observer for pieces: %q, %v", r.Payload, err)
		}
	}, "go", "node 3", "node 4", "rust")
}

// withoutHead returns the body of a response for an HTTP gateway: Rust writes status and
// headers before it, and zeros.
func withoutHead(text string) string { return text[strings.LastIndexByte(text, 0)+1:] }

func create(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
