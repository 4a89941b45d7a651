package frames

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/internal/wire"
	"github.com/bullpen-run/bullpen/protocol"
)

func TestMain(m *testing.M) { leak.Main(m) }

// greeted makes a session whose worker has said hello.
func greeted(t testing.TB, memory []byte, tasks ...string) *Session {
	t.Helper()
	s, err := New(memory, protocol.DefaultFrame)
	if err != nil {
		t.Fatal(err)
	}
	hello := protocol.WorkerHello{SDK: "test/1", Tasks: tasks, Page: true, Arena: true, Ask: 28}.Append(nil)
	m, n, _, err := s.Next(hello)
	if err != nil || n != len(hello) {
		t.Fatalf("HELLO: %d of %d bytes, %v", n, len(hello), err)
	}
	if _, err := s.TakeHello(m); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNames(t *testing.T) {
	t.Parallel()
	one, two, anyTask := greeted(t, nil, "only"), greeted(t, nil, "a", "b"), greeted(t, nil, "a", "*")
	for _, c := range []struct {
		s    *Session
		name string
		code uint16 // 0: unknown
	}{
		{one, "only", 1}, {one, "", 1}, {one, "other", 0},
		{two, "b", 2}, {two, "", 0}, {two, "c", 0},
		{anyTask, "a", 1}, {anyTask, "what", 2},
	} {
		task := bullpen.Task{Name: c.name}
		err := c.s.Check(&task)
		if (err == nil) != (c.code != 0) || err != nil && !errors.Is(err, bullpen.ErrUnknownTask) {
			t.Errorf("Check(%q) = %v", c.name, err)
		}
		if c.code == 0 {
			continue
		}
		h := protocol.ParseHeader(c.s.AppendTask(nil, wire.Task{Number: 1, Task: &task}))
		if h.Code != c.code {
			t.Errorf("task %q goes to handler %d, want %d", c.name, h.Code, c.code)
		}
	}
}

func TestAppendTask(t *testing.T) {
	t.Parallel()
	s := greeted(t, nil, "*")
	task := bullpen.Task{ID: "id7", Name: "shrink", Payload: []byte("jpeg"), Meta: map[string]string{"k": "v"}}
	out := s.AppendTask([]byte("before"), wire.Task{Number: 9, Timeout: 1500 * time.Nanosecond, Output: 10, Task: &task})
	h, body, n, _, err := protocol.Split(out[len("before"):], protocol.DefaultFrame)
	if err != nil || n != len(out)-len("before") {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if h.ID != 9 || h.Flags != protocol.Meta|protocol.Timeout || h.Aux != 2 {
		t.Errorf("header %v", h)
	}
	pairs, payload, err := protocol.ParsePairs(body)
	if err != nil || string(payload) != "jpeg" {
		t.Fatalf("payload %q, %v", payload, err)
	}
	for key, want := range map[string]string{"k": "v", "bullpen.id": "id7", "bullpen.name": "shrink", "bullpen.output": "10"} {
		if have, _ := protocol.Lookup(pairs, key); have != want {
			t.Errorf("%s is %q, want %q", key, have, want)
		}
	}
}

func TestArena(t *testing.T) {
	t.Parallel()
	memory := make([]byte, 1<<20)
	s := greeted(t, memory, "a")
	payload := bytes.Repeat([]byte("x"), 200<<10)
	task := bullpen.Task{Name: "a", Payload: payload}
	var placed int
	for number := uint32(1); number <= 3; number++ {
		h, body, _, _, err := protocol.Split(s.AppendTask(nil, wire.Task{Number: number, Task: &task}), protocol.DefaultFrame)
		if err != nil {
			t.Fatal(err)
		}
		if h.Flags&protocol.Arena == 0 {
			if !bytes.Equal(body, payload) {
				t.Error("a payload without a place does not travel in its frame")
			}
			continue
		}
		placed++
		ref, err := protocol.ParseRequest(body)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := s.request.Slice(memory, ref); err != nil || !bytes.Equal(have, payload) {
			t.Errorf("task %d: %d bytes in the arena, %v", number, len(have), err)
		}
	}
	if placed != 2 { // of half a megabyte
		t.Errorf("%d payloads found a place, want 2", placed)
	}
	s.Answered(1)
	if out := s.AppendTask(nil, wire.Task{Number: 4, Task: &task}); protocol.ParseHeader(out).Flags&protocol.Arena == 0 {
		t.Error("the place of an answered task is not used again")
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	memory := make([]byte, 1<<20)
	s := greeted(t, memory, "a")
	ring := protocol.Ring{Part: s.reply}
	for i := range 20 {
		want := bytes.Repeat([]byte{byte(i)}, 100<<10)
		ref, ok := ring.Reserve(len(want), s.page.Freed())
		if !ok {
			t.Fatalf("reply %d has no place", i)
		}
		copy(memory[ref.Offset:], want)
		frame := protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Result, Flags: protocol.Arena, ID: 1}, ref.AppendReply(nil))
		m, _, _, err := s.Next(frame)
		if err != nil || !bytes.Equal(m.Body, want) {
			t.Fatalf("reply %d: %d bytes, %v", i, len(m.Body), err)
		}
		s.Release(m.Taken)
	}
	for name, ref := range map[string]protocol.Reference{
		"outside":   {Offset: s.reply.Offset + s.reply.Length - 8, Length: 16, Taken: ring.Taken + 64},
		"request":   {Offset: s.request.Offset, Length: 16, Taken: ring.Taken + 64},
		"backwards": {Offset: s.reply.Offset, Length: 16, Taken: 1},
		"far ahead": {Offset: s.reply.Offset, Length: 16, Taken: ring.Taken + 1<<40},
	} {
		frame := protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Result, Flags: protocol.Arena, ID: 1}, ref.AppendReply(nil))
		if _, _, _, err := s.Next(frame); err == nil || !strings.HasPrefix(err.Error(), "protocol: ") {
			t.Errorf("a reference %s is taken: %v", name, err)
		}
	}
}

// TestExtents holds the list of places against a map of bytes.
func TestExtents(t *testing.T) {
	t.Parallel()
	const length = 1 << 14
	rng := rand.New(rand.NewPCG(1, 2))
	var e extents
	owner := make([]uint32, length)
	held := map[uint32]bool{}
	for number := uint32(1); number < 20000; number++ {
		if len(held) > 0 && rng.IntN(2) == 0 {
			for old := range held {
				delete(held, old)
				e.give(old)
				for i := range owner {
					if owner[i] == old {
						owner[i] = 0
					}
				}
				break
			}
		}
		n := uint64(rng.IntN(length/3) + 1)
		at, ok := e.take(number, n, length)
		if !ok {
			continue
		}
		if at%64 != 0 || at+n > length {
			t.Fatalf("%d bytes at %d of %d", n, at, length)
		}
		for i := at; i < at+n; i++ {
			if owner[i] != 0 {
				t.Fatalf("byte %d belongs to %d and to %d", i, owner[i], number)
			}
			owner[i] = number
		}
		held[number] = true
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte{})
	f.Add(protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Result, ID: 1}, []byte("x")))
	f.Add(protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Error, Code: 1, ID: 1}, protocol.BeginPairs(nil, 0)))
	f.Add(protocol.AppendFrame(nil, protocol.Header{Kind: protocol.Result, Flags: protocol.Arena, ID: 1}, make([]byte, 24)))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := greeted(t, make([]byte, 1<<16), "a")
		for len(in) > 0 {
			m, n, need, err := s.Next(in)
			if err != nil || n == 0 {
				if err == nil && need <= len(in) {
					t.Fatalf("it needs %d bytes and has %d", need, len(in))
				}
				return
			}
			if n > len(in) {
				t.Fatalf("%d of %d bytes taken", n, len(in))
			}
			s.Release(m.Taken)
			in = in[n:]
		}
	})
}
