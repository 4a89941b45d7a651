package protocol_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/bullpen-run/bullpen/protocol"
)

func invalid(err error) bool {
	var e *protocol.InvalidError
	return errors.As(err, &e)
}

// FuzzSplit checks that Split never reads outside its input, never asks for
// what it has, and gives what AppendFrame makes.
func FuzzSplit(f *testing.F) {
	for _, v := range frameVectors() {
		f.Add(unhex(f, v.Hex), uint32(protocol.DefaultFrame))
	}
	for _, v := range streamVectors() {
		f.Add(unhex(f, v.Hex), uint32(64))
	}
	f.Fuzz(func(t *testing.T, b []byte, limit uint32) {
		h, body, n, need, err := protocol.Split(b, limit)
		switch {
		case err != nil:
			if !invalid(err) || n != 0 || (h.Kind.Known() && h.Length <= limit) {
				t.Fatalf("n=%d err=%v for %v", n, err, h)
			}
		case n == 0:
			if need <= len(b) {
				t.Fatalf("asks for %d bytes and has %d", need, len(b))
			}
		default:
			if n != need || n > len(b) || len(body) != cap(body) {
				t.Fatalf("n=%d need=%d of %d, body %d of %d", n, need, len(b), len(body), cap(body))
			}
			if !bytes.Equal(protocol.AppendFrame(nil, h, body), b[:n]) {
				t.Fatal("encoding again gives other bytes")
			}
		}
	})
}

// FuzzParsePairs checks that what is read is what is encoded, and that every
// fault is an InvalidError.
func FuzzParsePairs(f *testing.F) {
	for _, c := range cutPairs {
		f.Add(c.body)
	}
	for _, row := range frameTable {
		f.Add(append(pairs(row.pairs...), row.payload...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kv, rest, err := protocol.ParsePairs(b)
		_, errAll := protocol.ParseAllPairs(b)
		if err != nil {
			if !invalid(err) || !invalid(errAll) {
				t.Fatalf("faults %v and %v", err, errAll)
			}
			return
		}
		if (errAll == nil) != (len(rest) == 0) {
			t.Fatalf("%d bytes behind the pairs, and ParseAllPairs says %v", len(rest), errAll)
		}
		again := protocol.BeginPairs(nil, len(kv))
		for _, p := range kv {
			if err := protocol.CheckPair(p.Key); err != nil {
				t.Fatal(err)
			}
			again = protocol.AppendPair(again, p.Key, p.Value)
			if _, ok := protocol.Lookup(kv, p.Key); !ok {
				t.Fatalf("key %q is not found", p.Key)
			}
		}
		if !bytes.Equal(append(again, rest...), b) {
			t.Fatal("encoding again gives other bytes")
		}
	})
}

// FuzzSession reads arbitrary bytes as each side does, HELLO and all.
func FuzzSession(f *testing.F) {
	greet := protocol.WorkerHello{SDK: "go/0.1", Tasks: []string{"echo", "*"}, Page: true, Ask: 10}.Append(nil)
	f.Add(false, append(greet, answer(protocol.Result, 0, 0, 1, []byte("x"))...))
	for _, v := range streamVectors() {
		b := unhex(f, v.Hex)
		if !v.First {
			b = append(bytes.Clone(greet), b...)
		}
		f.Add(v.To == "worker", b)
	}
	f.Fuzz(func(t *testing.T, worker bool, b []byte) {
		to := "host"
		if worker {
			to = "worker"
		}
		if err := newReader(to).read(b); err != nil && !invalid(err) {
			t.Fatalf("fault of another type: %v", err)
		}
	})
}

// FuzzReference checks that a reference never reaches outside its part.
func FuzzReference(f *testing.F) {
	f.Add([]byte(requestRef(4096, 100)), "4096 4096")
	f.Add([]byte(requestRef(8191, 1)), "4096 4096")
	f.Add([]byte(requestRef(1<<63, 1<<63)), "9223372036854775807 9223372036854775807")
	memory := make([]byte, 16384)
	f.Fuzz(func(t *testing.T, b []byte, value string) {
		part, err := protocol.ParsePart(value)
		if err != nil {
			return
		}
		if part.String() != value && value[0] != '0' {
			if again, err := protocol.ParsePart(part.String()); err != nil || again != part {
				t.Fatalf("%q reads as %v, and that as %v (%v)", value, part, again, err)
			}
		}
		r, err := protocol.ParseRequest(b)
		if err != nil {
			return
		}
		view, err := part.Slice(memory, r)
		if err != nil {
			return
		}
		if uint64(len(view)) != r.Length || r.Offset < part.Offset || r.Offset+r.Length > part.Offset+part.Length || cap(view) != len(view) {
			t.Fatalf("%+v in %v gave %d bytes", r, part, len(view))
		}
	})
}
