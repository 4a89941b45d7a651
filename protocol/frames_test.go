package protocol_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/protocol"
)

// frameRow is one row of the table behind frames.json: a header, then pairs and
// payload of the body.
type frameRow struct {
	name    string
	header  protocol.Header
	pairs   []string // keys and values alternate; nil where the body has none
	payload string
}

var frameTable = []frameRow{
	{"hello of a host", protocol.Header{Kind: protocol.Hello, Code: 1},
		[]string{"worker", "w1", "pid", "4711", "max_frame", "67108864", "output", "0"}, ""},
	{"hello of a host with arena", protocol.Header{Kind: protocol.Hello, Code: 1},
		[]string{"arena.request", "4096 1048576", "arena.reply", "1052672 1048576"}, ""},
	{"hello of a host that accepts chunks", protocol.Header{Kind: protocol.Hello, Code: 1}, []string{"caps", "future chunks"}, ""},
	{"hello of a worker that may send chunks", protocol.Header{Kind: protocol.Hello, Code: 1}, []string{"tasks", "echo", "caps", "chunks"}, ""},
	{"hello of a worker", protocol.Header{Kind: protocol.Hello, Code: 1},
		[]string{"sdk", "go/0.1", "tasks", "echo\nfail\n*", "concurrency", "4", "caps", "page arena ask=10"}, ""},
	{"hello without pairs", protocol.Header{Kind: protocol.Hello, Code: 1}, []string{}, ""},
	{"hello of another version", protocol.Header{Kind: protocol.Hello, Code: 2}, []string{"worker", "w1"}, ""},
	{"task", protocol.Header{Kind: protocol.Task, Code: 1, ID: 1}, nil, "hello"},
	{"task with an empty payload", protocol.Header{Kind: protocol.Task, Code: 1, ID: 2}, nil, ""},
	{"task with a limit of 1.5 s", protocol.Header{Kind: protocol.Task, Flags: protocol.Timeout, Code: 1, ID: 3, Aux: 1500000}, nil, "x"},
	{"task with the largest limit", protocol.Header{Kind: protocol.Task, Flags: protocol.Timeout, Code: 1, ID: 4, Aux: math.MaxUint32}, nil, "x"},
	{"task with a limit of 0", protocol.Header{Kind: protocol.Task, Flags: protocol.Timeout, Code: 1, ID: 5}, nil, "x"},
	{"task without a limit, aux set", protocol.Header{Kind: protocol.Task, Code: 1, ID: 6, Aux: 99}, nil, "x"},
	{"task with pairs", protocol.Header{Kind: protocol.Task, Flags: protocol.Meta, Code: 1, ID: 7},
		[]string{"bullpen.id", "01J", "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, "payload"},
	{"task with pairs and no payload", protocol.Header{Kind: protocol.Task, Flags: protocol.Meta, Code: 2, ID: 8}, []string{"k", "v"}, ""},
	{"task with no pairs in META", protocol.Header{Kind: protocol.Task, Flags: protocol.Meta, Code: 2, ID: 9}, []string{}, "p"},
	{"task with empty value, UTF-8 and a key twice", protocol.Header{Kind: protocol.Task, Flags: protocol.Meta, Code: 2, ID: 10},
		[]string{"empty", "", "größe", "日本", "k", "first", "k", "last"}, "\x00\xff"},
	{"task with pairs and a limit", protocol.Header{Kind: protocol.Task, Flags: protocol.Meta | protocol.Timeout, Code: 65535, ID: 11, Aux: 1}, []string{"k", "v"}, "p"},
	{"task in the arena", protocol.Header{Kind: protocol.Task, Flags: protocol.Arena, Code: 1, ID: 12}, nil, requestRef(4096, 32768)},
	{"task in the arena with pairs", protocol.Header{Kind: protocol.Task, Flags: protocol.Arena | protocol.Meta, Code: 1, ID: 13},
		[]string{"k", "v"}, requestRef(69632, 1<<20)},
	{"task with unknown flags", protocol.Header{Kind: protocol.Task, Flags: 0xE0, Code: 1, ID: 14}, nil, "x"},
	{"task with the last number", protocol.Header{Kind: protocol.Task, Code: 1, ID: math.MaxUint32}, nil, "x"},
	{"result", protocol.Header{Kind: protocol.Result, ID: 1, Aux: 250}, nil, "hello"},
	{"result that is empty", protocol.Header{Kind: protocol.Result, ID: 2}, nil, ""},
	{"result of a very long run", protocol.Header{Kind: protocol.Result, ID: 3, Aux: math.MaxUint32}, nil, "x"},
	{"result in the arena", protocol.Header{Kind: protocol.Result, Flags: protocol.Arena, ID: 4, Aux: 12},
		nil, string(protocol.Reference{Offset: 1052672, Length: 40000, Taken: 40000}.AppendReply(nil))},
	{"error: failed", protocol.Header{Kind: protocol.Error, Code: 1, ID: 5, Aux: 3}, []string{"type", "failed", "message", "no such user"}, ""},
	{"error: failed for good", protocol.Header{Kind: protocol.Error, Flags: protocol.Final, Code: 1, ID: 6}, []string{"message", "never"}, ""},
	{"error: panic with a stack", protocol.Header{Kind: protocol.Error, Code: 2, ID: 7},
		[]string{"type", "panic", "message", "index out of range", "stack", "main.f\n\tmain.go:7\n"}, ""},
	{"error: timeout", protocol.Header{Kind: protocol.Error, Code: 3, ID: 8, Aux: 1500001}, []string{"message", "deadline"}, ""},
	{"error: canceled", protocol.Header{Kind: protocol.Error, Code: 4, ID: 9}, []string{}, ""},
	{"error: output", protocol.Header{Kind: protocol.Error, Code: 7, ID: 10}, []string{"message", "11 bytes; the bound is 10"}, ""},
	{"returned", protocol.Header{Kind: protocol.Returned, ID: 11}, nil, ""},
	{"cancel: timeout", protocol.Header{Kind: protocol.Cancel, Code: 3, ID: 12}, nil, ""},
	{"cancel: canceled", protocol.Header{Kind: protocol.Cancel, Code: 4, ID: 13}, nil, ""},
	{"started", protocol.Header{Kind: protocol.Started, ID: 14}, nil, ""},
	{"progress", protocol.Header{Kind: protocol.Progress, ID: 15, Aux: 500000}, nil, "half"},
	{"progress without a note", protocol.Header{Kind: protocol.Progress, ID: 15, Aux: 1000000}, nil, ""},
	{"log: info", protocol.Header{Kind: protocol.Log, Code: 32768, ID: 16}, nil, "grüße"},
	{"log: debug, of no task", protocol.Header{Kind: protocol.Log, Code: 32764}, nil, "ready"},
	{"log: stdout", protocol.Header{Kind: protocol.Log, Code: 32768, ID: 16, Aux: 1}, nil, "printed"},
	{"log: stderr", protocol.Header{Kind: protocol.Log, Code: 32776, ID: 16, Aux: 2}, nil, ""},
	{"ping", protocol.Header{Kind: protocol.Ping, Aux: 0xDEADBEEF}, nil, ""},
	{"ping: the answer", protocol.Header{Kind: protocol.Ping, Flags: protocol.Ack, Aux: 0xDEADBEEF}, nil, ""},
	{"drain", protocol.Header{Kind: protocol.Drain}, nil, ""},
	{"chunk", protocol.Header{Kind: protocol.Chunk, ID: 17}, nil, "a piece"},
	{"chunk of one byte", protocol.Header{Kind: protocol.Chunk, ID: 17}, nil, "\x00"},
}

func requestRef(offset, length uint64) string {
	return string(protocol.Reference{Offset: offset, Length: length}.AppendRequest(nil))
}

// frameVectors turns the table into what the file holds.
func frameVectors() []frameVector {
	var all []frameVector
	for _, row := range frameTable {
		var body []byte
		v := frameVector{Name: row.name, Kind: row.header.Kind, Flags: row.header.Flags, Code: row.header.Code,
			ID: row.header.ID, Aux: row.header.Aux}
		if row.pairs != nil {
			body = pairs(row.pairs...)
			for kv := range slices.Chunk(row.pairs, 2) {
				v.Pairs = append(v.Pairs, [2]string(kv))
			}
		}
		if row.header.Flags&protocol.Meta != 0 {
			payload := hex.EncodeToString([]byte(row.payload))
			v.Payload = &payload
		}
		body = append(body, row.payload...)
		v.Body, v.Hex = hex.EncodeToString(body), hex.EncodeToString(frame(row.header, body))
		all = append(all, v)
	}
	return all
}

func TestFrameVectors(t *testing.T) {
	t.Parallel()
	vectors := frameVectors()
	checkFile(t, "frames.json", "frames", anys(vectors))
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			checkFrame(t, v)
		})
	}
}

// checkFrame decodes what v holds, compares each field, and encodes it again.
func checkFrame(t *testing.T, v frameVector) {
	t.Helper()
	raw := unhex(t, v.Hex)
	h, body, n, need, err := protocol.Split(append(slices.Clone(raw), 0xAA), protocol.DefaultFrame)
	if err != nil || n != len(raw) || need != len(raw) {
		t.Fatalf("Split gave n=%d need=%d err=%v for a frame of %d bytes", n, need, err, len(raw))
	}
	want := protocol.Header{Length: uint32(len(body)), Kind: v.Kind, Flags: v.Flags, Code: v.Code, ID: v.ID, Aux: v.Aux}
	if h != want || hex.EncodeToString(body) != v.Body {
		t.Errorf("read %v and %x, want %v and %s", h, body, want, v.Body)
	}
	if !bytes.Equal(protocol.AppendFrame(nil, h, body), raw) {
		t.Error("encoding again gives other bytes")
	}
	for cut := range raw {
		if _, _, n, need, err := protocol.Split(raw[:cut], protocol.DefaultFrame); n != 0 || err != nil || need > len(raw) || need <= cut {
			t.Fatalf("first %d of %d bytes: n=%d need=%d err=%v", cut, len(raw), n, need, err)
		}
	}
	if v.Pairs == nil {
		return
	}
	have, rest, err := protocol.ParsePairs(body)
	if err != nil || len(have) != len(v.Pairs) {
		t.Fatalf("read %d pairs of %d: %v", len(have), len(v.Pairs), err)
	}
	for i, p := range have {
		if p.Key != v.Pairs[i][0] || string(p.Value) != v.Pairs[i][1] {
			t.Errorf("pair %d is %q=%q, want %q", i, p.Key, p.Value, v.Pairs[i])
		}
	}
	if v.Payload != nil && hex.EncodeToString(rest) != *v.Payload {
		t.Errorf("payload is %x, want %s", rest, *v.Payload)
	}
	if v.Payload == nil && len(rest) > 0 {
		t.Errorf("%d bytes stand behind the pairs", len(rest))
	}
}

func TestFrameTableNamesEveryKind(t *testing.T) {
	t.Parallel()
	seen := map[protocol.Kind]bool{}
	names := map[string]bool{}
	for _, row := range frameTable {
		if names[row.name] {
			t.Errorf("two frames are named %q", row.name)
		}
		names[row.name], seen[row.header.Kind] = true, true
	}
	for k := range protocol.Kind(255) {
		if k.Known() != seen[k] {
			t.Errorf("%v: known %v, in the table %v", k, k.Known(), seen[k])
		}
		if k.Known() == strings.HasPrefix(k.String(), "kind ") {
			t.Errorf("%v has no name", k)
		}
	}
}
