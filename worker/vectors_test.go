//go:build unix

package worker

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/protocol"
)

func load(t *testing.T, name string, to any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "protocol", "vectors", name))
	check(t, err)
	check(t, json.Unmarshal(b, to))
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	check(t, err)
	return b
}

func TestMalformedVectors(t *testing.T) {
	t.Parallel()
	var file struct {
		Streams []struct {
			Name, To, Hex, Fault string
			First                bool
		}
	}
	load(t, "malformed.json", &file)
	walked := 0
	for _, v := range file.Streams {
		if v.To != "worker" {
			continue
		}
		walked++
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			h := start(t, "vectors", false)
			if !v.First {
				h.greet()
			}
			h.send(unhex(t, v.Hex))
			check(t, h.in.Close())
			if status := h.exit(); status != statusProtocol {
				t.Errorf("exit status is %d, want %d", status, statusProtocol)
			}
			if said := h.stderr.String(); !strings.Contains(said, v.Fault) {
				t.Errorf("the worker says %q, want %q", said, v.Fault)
			}
		})
	}
	if walked < 40 {
		t.Errorf("only %d streams go to workers", walked)
	}
}

type expectation struct {
	Kind  protocol.Kind
	Code  uint16
	Flags uint8
	ID    uint32
	Aux   *uint32
	Body  *string
	Pairs map[string]string
}

func TestSessionVectors(t *testing.T) {
	t.Parallel()
	var file struct {
		Sessions []struct {
			Name  string
			Steps []struct {
				Send   *string
				Expect *expectation
				Close  bool
				Exit   *int
			}
		}
	}
	load(t, "sessions.json", &file)
	for _, v := range file.Sessions {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			h := start(t, "vectors", false)
			for i, s := range v.Steps {
				switch {
				case s.Send != nil:
					h.send(unhex(t, *s.Send))
				case s.Expect != nil:
					h.meets(i, s.Expect)
				case s.Close:
					check(t, h.in.Close())
				case s.Exit != nil:
					if status := h.exit(); status != *s.Exit || len(h.buf) > 0 {
						t.Fatalf("step %d: status %d and %d bytes, want status %d", i, status, len(h.buf), *s.Exit)
					}
				}
			}
		})
	}
}

// meets takes the next frame and compares it.
func (h *host) meets(step int, want *expectation) {
	h.t.Helper()
	head, body := h.next()
	if head.Kind != want.Kind || head.Code != want.Code || head.Flags != want.Flags || head.ID != want.ID ||
		(want.Aux != nil && head.Aux != *want.Aux) || (want.Body != nil && hex.EncodeToString(body) != *want.Body) {
		h.t.Fatalf("step %d: got %v %.80q, want %+v", step, head, body, *want)
	}
	if want.Pairs == nil {
		return
	}
	pairs, err := protocol.ParseAllPairs(body)
	check(h.t, err)
	for key, value := range want.Pairs {
		if have, _ := protocol.Lookup(pairs, key); have != value {
			h.t.Errorf("step %d: %s is %q, want %q", step, key, have, value)
		}
	}
}
