package protocol_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/protocol"
)

var update = flag.Bool("update", false, "write the vector files anew from the tables of these tests")

// The shapes of the vector files; vectors/README.md describes them.
type (
	frameVector struct {
		Name    string        `json:"name"`
		Hex     string        `json:"hex"`
		Kind    protocol.Kind `json:"kind"`
		Flags   uint8         `json:"flags"`
		Code    uint16        `json:"code"`
		ID      uint32        `json:"id"`
		Aux     uint32        `json:"aux"`
		Body    string        `json:"body"`
		Pairs   [][2]string   `json:"pairs,omitempty"`
		Payload *string       `json:"payload,omitempty"`
	}
	streamVector struct {
		Name  string `json:"name"`
		To    string `json:"to"`
		First bool   `json:"first,omitempty"`
		Hex   string `json:"hex"`
		Fault string `json:"fault"`
	}
	sessionVector struct {
		Name  string `json:"name"`
		Steps []step `json:"steps"`
	}
	step struct {
		Send   *string `json:"send,omitempty"`
		Expect *expect `json:"expect,omitempty"`
		Close  bool    `json:"close,omitempty"`
		Exit   *int    `json:"exit,omitempty"`
	}
	expect struct {
		Kind  protocol.Kind     `json:"kind"`
		Code  uint16            `json:"code"`
		Flags uint8             `json:"flags"`
		ID    uint32            `json:"id"`
		Aux   *uint32           `json:"aux,omitempty"`
		Body  *string           `json:"body,omitempty"`
		Pairs map[string]string `json:"pairs,omitempty"`
	}
)

// pairs encodes keys and values that alternate.
func pairs(kv ...string) []byte {
	b := protocol.BeginPairs(nil, len(kv)/2)
	for i := 0; i < len(kv); i += 2 {
		b = protocol.AppendPair(b, kv[i], kv[i+1])
	}
	return b
}

// frame encodes one frame; body parts are joined.
func frame(h protocol.Header, body ...[]byte) []byte {
	return protocol.AppendFrame(nil, h, bytes.Join(body, nil))
}

// checkFile compares a vector file with what its table gives, or writes it.
// Items stand on lines of their own, so that differences can be read.
func checkFile(t *testing.T, name, list string, items []any) {
	t.Helper()
	var b strings.Builder
	b.WriteString("{\"" + list + "\": [\n")
	for i, item := range items {
		line, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		if i < len(items)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]}\n")
	path := filepath.Join("vectors", name)
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: write it with go test ./protocol -update", err)
	}
	if string(have) != b.String() {
		t.Errorf("%s differs from its table: see the tests beside it; write it anew with go test ./protocol -update", path)
	}
	if !json.Valid(have) {
		t.Errorf("%s is not JSON", path)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func anys[T any](items []T) []any {
	all := make([]any, len(items))
	for i, item := range items {
		all[i] = item
	}
	return all
}
