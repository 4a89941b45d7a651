package worker

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/protocol"
)

// quiet are handlers that touch nothing outside of their task.
var quiet = Config{Handlers: map[string]bullpen.Handler{
	"echo": func(_ context.Context, t bullpen.Task) ([]byte, error) { return t.Payload, nil },
	"null": func(context.Context, bullpen.Task) ([]byte, error) { return nil, nil },
}}

// page returns shared memory that is a page only.
func page(t testing.TB) []byte {
	t.Helper()
	words := make([]uint64, protocol.PageSize/8)
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), protocol.PageSize)
	p, err := protocol.NewPage(memory)
	if err != nil {
		t.Fatal(err)
	}
	p.Init()
	return memory
}

// batches gives the same bytes n times, then end of file.
type batches struct {
	hello, batch []byte
	n            int
	at           int
}

func (r *batches) Read(b []byte) (int, error) {
	if len(r.hello) > 0 {
		n := copy(b, r.hello)
		r.hello = r.hello[n:]
		return n, nil
	}
	if r.at == len(r.batch) {
		r.n, r.at = r.n-1, 0
	}
	if r.n <= 0 {
		return 0, io.EOF
	}
	n := copy(b, r.batch[r.at:])
	r.at += n
	return n, nil
}

// serveBatches runs the loop over n batches of 32 tasks, in this process.
func serveBatches(t testing.TB, handler uint16, payload []byte, n int) {
	t.Helper()
	in := &batches{hello: protocol.HostHello{}.Append(nil), n: n}
	for id := uint32(1); id <= 32; id++ {
		in.batch = protocol.AppendFrame(in.batch, protocol.Header{Kind: protocol.Task, Code: handler, ID: id}, payload)
	}
	names, err := quiet.check()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSession(quiet, names, in, io.Discard, page(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.serve(); err != nil {
		t.Fatal(err)
	}
}

func TestTasksAllocateNothing(t *testing.T) {
	few := testing.AllocsPerRun(5, func() { serveBatches(t, 1, []byte("payload"), 1) })
	many := testing.AllocsPerRun(5, func() { serveBatches(t, 1, []byte("payload"), 1001) })
	// Contexts are made 32 at a time: one allocation for each batch.
	if perTask := (many - few) / 32000; perTask > 1.1/32 {
		t.Errorf("%v allocations for one task", perTask)
	}
}

// FuzzWorker serves arbitrary bytes; whatever they are, the session ends as the
// protocol says, and what was written are good frames.
func FuzzWorker(f *testing.F) {
	b, err := os.ReadFile(filepath.Join("..", "protocol", "vectors", "malformed.json"))
	if err != nil {
		f.Fatal(err)
	}
	var file struct {
		Streams []struct {
			Hex   string
			First bool
		}
	}
	if err := json.Unmarshal(b, &file); err != nil {
		f.Fatal(err)
	}
	for _, v := range file.Streams {
		raw, err := hex.DecodeString(v.Hex)
		if err != nil {
			f.Fatal(err)
		}
		if !v.First {
			raw = append(protocol.HostHello{}.Append(nil), raw...)
		}
		f.Add(raw, false)
		f.Add(raw, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, several bool) {
		c := quiet
		if several {
			c.Concurrency = 3
		}
		var out bytes.Buffer
		s, err := newSession(c, []string{"echo", "null"}, bytes.NewReader(raw), &out, page(t))
		if err != nil {
			t.Fatal(err)
		}
		err = s.serve()
		var invalid *protocol.InvalidError
		if err != nil && !errors.As(err, &invalid) {
			t.Fatalf("the session ended with %v", err)
		}
		if err != nil && several {
			return // slots may still write
		}
		for left := out.Bytes(); len(left) > 0; {
			h, body, n, _, err := protocol.Split(left, protocol.DefaultFrame)
			if err != nil || n == 0 {
				t.Fatalf("the worker wrote %x (%v)", left, err)
			}
			if err := protocol.CheckToHost(h, body); err != nil {
				t.Fatal(err)
			}
			left = left[n:]
		}
	})
}

// oddReader gives a byte, two bytes, three bytes and so on.
type oddReader struct {
	b []byte
	n int
}

func (r *oddReader) Read(b []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	r.n = r.n%5000 + 1
	n := copy(b, r.b[:min(r.n, len(r.b))])
	r.b = r.b[n:]
	return n, nil
}

func TestFramesInPieces(t *testing.T) {
	t.Parallel()
	var all []byte
	sizes := []int{0, 1, 1000, bufferSize - protocol.HeaderSize, bufferSize, 3 * bufferSize, 7}
	for range 3 * keepReads {
		sizes = append(sizes, 3000)
	}
	for i, size := range sizes {
		all = protocol.AppendFrame(all, protocol.Header{Kind: protocol.Task, ID: uint32(i)}, bytes.Repeat([]byte{byte(i)}, size))
	}
	f := newFrames(&oddReader{b: all})
	for i := 0; i < len(sizes); {
		h, body, ok, err := f.next()
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			if h.ID != uint32(i) || len(body) != sizes[i] || slices.ContainsFunc(body, func(b byte) bool { return b != byte(i) }) {
				t.Fatalf("frame %d is %v", i, h)
			}
			i++
			continue
		}
		if err := f.fill(); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.buf) != bufferSize {
		t.Errorf("the buffer keeps %d bytes", len(f.buf))
	}
	if err := f.fill(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func BenchmarkInProcess(b *testing.B) {
	for name, c := range map[string]struct {
		handler uint16
		payload []byte
	}{"null": {2, nil}, "echo1K": {1, make([]byte, 1024)}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			serveBatches(b, c.handler, c.payload, b.N/32+1)
		})
	}
}
