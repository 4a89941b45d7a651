//go:build unix

package process

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// chunkRole is a bad worker that sends chunks.
func chunkRole(role string, out *os.File, h protocol.Header) {
	chunk := protocol.Header{Kind: protocol.Chunk, ID: h.ID}
	answer := protocol.Header{Kind: protocol.Result, ID: h.ID}
	switch role {
	case "chunk-wrong-id":
		chunk.ID += 7
	case "chunk-after-answer":
		write(out, answer, nil)
	case "chunk-of-nothing":
		write(out, chunk, nil)
	case "chunk-too-long":
		write(out, chunk, make([]byte, protocol.MaxChunk+1))
	case "chunk-flood":
		for {
			write(out, chunk, make([]byte, protocol.MaxChunk))
		}
	}
	write(out, chunk, []byte("begun"))
	switch role {
	case "chunk-return":
		answer.Kind = protocol.Returned
		write(out, answer, nil)
	case "chunk-exit":
		os.Exit(9)
	}
	<-time.After(time.Hour)
}

// TestBadChunks: whatever a worker does with chunks, the task has one outcome, is run once,
// and the next worker goes on.
func TestBadChunks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role string
		want bullpen.Outcome
		text string // in the error
		seen string
	}{
		{"chunk-unannounced", bullpen.Protocol, "did not announce", ""},
		{"chunk-wrong-id", bullpen.Protocol, "does not run", ""},
		{"chunk-of-nothing", bullpen.Protocol, "0 bytes", ""},
		{"chunk-too-long", bullpen.Protocol, "1048577 bytes", ""},
		{"chunk-return", bullpen.Protocol, "RETURNED", "begun"},
		{"chunk-exit", bullpen.Crashed, "status 9", "begun"}, // although it says that it never started
		{"chunk-flood", bullpen.Output, "more than 100000000 bytes", "*"},
		{"chunk-hang", bullpen.Timeout, "", "begun"},
	} {
		t.Run(c.role, func(t *testing.T) {
			t.Parallel()
			p := zooPool(t, func(c *Config) {
				c.Grace, c.Limits.Output = 100*ms, 100_000_000
				if c.Command[2] == "chunk-hang" {
					c.Limits.Timeout = 300 * ms
				}
			}, c.role, "2")
			do(t, p, "any", "one")
			got := &pieces{}
			_, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "any", Payload: []byte("two"), Observer: got})
			if te := wantOutcome(t, err, c.want); !strings.Contains(err.Error(), c.text) || te.Retryable == (c.want == bullpen.Output) {
				t.Errorf("the error is %v (%v), want %q", err, te.Retryable, c.text)
			}
			size := 0
			for _, piece := range got.all {
				size += len(piece)
			}
			if all := strings.Join(got.all, ""); size > 100_000_000 || c.seen != "*" && all != c.seen {
				t.Errorf("%d bytes came, want %q", size, c.seen)
			}
			do(t, p, "any", "three")
		})
	}
}

func TestChunkAfterAnswer(t *testing.T) {
	t.Parallel()
	p := zooPool(t, nil, "chunk-after-answer")
	for i := range uint64(5) {
		got := &pieces{}
		if _, err := p.Execute(within(t, time.Minute), bullpen.Task{Name: "any", Observer: got}); err != nil || len(got.all) > 0 {
			t.Errorf("%q, %v", got.all, err)
		}
		poll(t, "the worker has died", func() bool { return p.Stats().Deaths[ByProtocol] == i+1 })
	}
}
