package protocol_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/bullpen-run/bullpen/protocol"
)

// aligned returns memory as mapping gives it.
func aligned(size int) []byte {
	words := make([]uint64, size/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size)
}

// newPage returns a page and the bytes under it.
func newPage(t testing.TB) (*protocol.Page, []byte) {
	t.Helper()
	memory := aligned(protocol.PageSize)
	p, err := protocol.NewPage(memory)
	if err != nil {
		t.Fatal(err)
	}
	p.Init()
	return p, memory
}

// TestPageLayout writes each word by its method and finds it at the offset of
// SPEC.md section 6.1, and nothing anywhere else.
func TestPageLayout(t *testing.T) {
	t.Parallel()
	type words map[int]uint32
	for _, c := range []struct {
		name string
		do   func(p *protocol.Page)
		want words
	}{
		{"Init", func(*protocol.Page) {}, words{}},
		{"Begin", func(p *protocol.Page) { p.Begin(7) }, words{64: 7}},
		{"End", func(p *protocol.Page) { p.End(8) }, words{68: 8}},
		{"Recall", func(p *protocol.Page) { p.Recall(9) }, words{128: 9}},
		{"EndRecall", func(p *protocol.Page) { p.Recall(9); p.EndRecall() }, words{}},
		{"Ask", func(p *protocol.Page) { p.Ask(10, protocol.ReasonTimeout) }, words{132: 10, 136: 3}},
		{"Free", func(p *protocol.Page) { p.Free(11 | 12<<32) }, words{144: 11, 148: 12}},
		{"BeginAt the first place", func(p *protocol.Page) { p.BeginAt(0, 13) }, words{64: 13, 256: 13}},
		{"BeginAt the last place", func(p *protocol.Page) { p.BeginAt(959, 14) }, words{64: 14, 4092: 14}},
		{"EndAt", func(p *protocol.Page) { p.BeginAt(1, 15); p.EndAt(1) }, words{64: 15}},
		{"Begin of a recalled task", func(p *protocol.Page) { p.Recall(5); p.Begin(5) }, words{64: 5, 68: 5, 128: 5}},
		{"BeginAt of a recalled task", func(p *protocol.Page) { p.Recall(5); p.BeginAt(2, 6) }, words{64: 6, 128: 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, memory := newPage(t)
			c.do(p)
			c.want[0] = 0x31504C42
			for at := 0; at < len(memory); at += 4 {
				if have := binary.NativeEndian.Uint32(memory[at:]); have != c.want[at] {
					t.Errorf("offset %d holds %d, want %d", at, have, c.want[at])
				}
			}
		})
	}
	if size := unsafe.Sizeof(protocol.Page{}); size != protocol.PageSize {
		t.Errorf("the page has %d bytes, want %d", size, protocol.PageSize)
	}
}

func TestPageReads(t *testing.T) {
	t.Parallel()
	p, memory := newPage(t)
	p.Begin(3)
	p.End(2)
	p.BeginAt(5, 4)
	p.Ask(4, protocol.ReasonCanceled)
	p.Free(64)
	if id, reason := p.Asked(); !p.Valid() || p.Started() != 4 || p.Finished() != 2 || p.RunningAt(5) != 4 ||
		id != 4 || reason != 4 || p.Freed() != 64 || p.Recall(9) != 4 {
		t.Error("a word reads otherwise than it was written")
	}
	if _, err := protocol.NewPage(memory[:4095]); err == nil {
		t.Error("a page of 4095 bytes is taken")
	}
	if _, err := protocol.NewPage(aligned(protocol.PageSize + 8)[1:]); err == nil {
		t.Error("a page that is not aligned is taken")
	}
	memory[0]++
	if p.Valid() {
		t.Error("a page with another magic is valid")
	}
}

func TestRecallWraps(t *testing.T) {
	t.Parallel()
	p, _ := newPage(t)
	p.Recall(math.MaxUint32)
	for id, starts := range map[uint32]bool{math.MaxUint32 - 1: true, math.MaxUint32: false, 1: false, 2: false} {
		if p.Begin(id) != starts {
			t.Errorf("task %d: starts is not %v", id, starts)
		}
	}
	p.EndRecall()
	if !p.Begin(1) {
		t.Error("task 1 does not start after the recall")
	}
}

// TestRecallHammer lets a host recall while a worker starts: each task has to
// be either run or given back, and none that the host counts as given back may
// run.
func TestRecallHammer(t *testing.T) {
	t.Parallel()
	for name, several := range map[string]bool{"one at a time": false, "several": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rounds := 20000
			if testing.Short() {
				rounds = 2000
			}
			early, late := 0, 0
			for round := range rounds {
				switch recallRound(t, several, round) {
				case 0:
					early++
				case window:
					late++
				}
			}
			t.Logf("of %d recalls %d came before the first task and %d after the last", rounds, early, late)
		})
	}
}

const window = 16

// recallRound gives the worker tasks 1 to window and recalls them from number 1
// on; it returns how many ran.
func recallRound(t *testing.T, several bool, round int) (ran int) {
	t.Helper()
	p, _ := newPage(t)
	var did [window + 1]bool
	var ready, end sync.WaitGroup
	ready.Add(2)
	begin := func(id uint32) bool {
		if several {
			return p.BeginAt(int(id)%4, id)
		}
		return p.Begin(id)
	}
	end.Go(func() { // the worker; recallRound waits for it
		ready.Done()
		ready.Wait()
		for id := uint32(1); id <= window; id++ {
			did[id] = begin(id)
			if several {
				p.EndAt(int(id) % 4)
			} else {
				p.End(id)
			}
			if round%3 == 0 {
				runtime.Gosched()
			}
		}
	})
	ready.Done()
	ready.Wait()
	for range round % 7 {
		runtime.Gosched()
	}
	started := p.Recall(1)
	end.Wait()
	for id := uint32(1); id <= window; id++ {
		if did[id] {
			ran++
			if id > started {
				t.Fatalf("task %d ran; the host recalled those after %d", id, started)
			}
		}
		if !did[id] && slices.Contains(did[id:], true) {
			t.Fatalf("task %d was given back and one after it ran", id)
		}
	}
	return ran
}

// TestRing compares the ring with a naive model: replies that the host has not
// freed never overlap, and an empty ring has room for whatever fits it.
func TestRing(t *testing.T) {
	t.Parallel()
	for _, length := range []uint64{64, 4096, 4096 + 64, 100000, 1 << 20} {
		rng := rand.New(rand.NewPCG(length, 1))
		part := protocol.Part{Offset: 8192, Length: length}
		ring := protocol.Ring{Part: part}
		memory := make([]byte, part.Offset+part.Length)
		var live []protocol.Reference // placed and not freed, oldest first
		var freed uint64
		for range 20000 {
			if len(live) > 0 && rng.IntN(3) == 0 {
				k := 1 + rng.IntN(len(live)) // the host frees some at once
				freed, live = live[k-1].Taken, live[k:]
			}
			n := 1 + rng.IntN(int(length))
			if rng.IntN(2) == 0 {
				n = 1 + rng.IntN(int(length)/8+1)
			}
			before := ring.Taken
			r, ok := ring.Reserve(n, freed)
			if !ok {
				fits := (uint64(n)+63)&^63 <= length
				if ring.Taken != before || (len(live) == 0 && fits) {
					t.Fatalf("ring of %d: no room for %d with %d live, taken %d to %d, freed %d", length, n, len(live), before, ring.Taken, freed)
				}
				continue
			}
			if _, err := part.Slice(memory, r); err != nil {
				t.Fatal(err)
			}
			if r.Length != uint64(n) || r.Taken <= before || r.Taken-freed > 2*length || r.Offset%64 != part.Offset%64 {
				t.Fatalf("ring of %d: placed %d as %+v, taken before %d, freed %d", length, n, r, before, freed)
			}
			for _, l := range live {
				if r.Offset < l.Offset+l.Length && l.Offset < r.Offset+r.Length {
					t.Fatalf("ring of %d: %+v overlaps %+v", length, r, l)
				}
			}
			live = append(live, r)
		}
	}
}

func TestRingWithoutPart(t *testing.T) {
	t.Parallel()
	var ring protocol.Ring
	if _, ok := ring.Reserve(1, 0); ok {
		t.Error("a ring without a part has room")
	}
	ring.Part.Length = 128
	for _, n := range []int{0, 129, math.MaxInt} {
		if r, ok := ring.Reserve(n, 0); ok {
			t.Errorf("%d bytes have a place: %+v", n, r)
		}
	}
}

func TestReferences(t *testing.T) {
	t.Parallel()
	want := protocol.Reference{Offset: 4096, Length: 40000, Taken: 40064}
	if have, err := protocol.ParseReply(want.AppendReply(nil)); err != nil || have != want {
		t.Errorf("read %+v (%v), want %+v", have, err, want)
	}
	part := protocol.Part{Offset: 4096, Length: 100}
	memory := make([]byte, 4196)
	for _, r := range []protocol.Reference{
		{Offset: 4095, Length: 1}, {Offset: 4096, Length: 101}, {Offset: 4196, Length: 1}, {Offset: 4197},
		{Offset: math.MaxUint64, Length: 2}, {Offset: 4100, Length: math.MaxUint64 - 4}, {Offset: 0, Length: 0},
	} {
		if _, err := part.Slice(memory, r); err == nil || !strings.Contains(err.Error(), "outside its part") {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if b, err := part.Slice(memory, protocol.Reference{Offset: 4096, Length: 100}); err != nil || len(b) != 100 {
		t.Errorf("the whole part: %d bytes, %v", len(b), err)
	}
	if _, err := part.Slice(memory[:4195], protocol.Reference{Offset: 4096, Length: 1}); err == nil {
		t.Error("a part that reaches outside the memory is taken")
	}
}
