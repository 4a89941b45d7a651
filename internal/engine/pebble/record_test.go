package pebble

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func FuzzItem(f *testing.F) {
	for _, i := range []item{
		{subject: "out.a", data: []byte("data"), time: 1},
		{subject: "at.a", target: "job.q.normal.a", timed: true, due: -5, time: 1 << 60},
		{subject: "key.q.a", timed: true, due: 77},
	} {
		f.Add(i.encode(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := readItem(b)
		if err != nil {
			return
		}
		again := i.encode(nil)
		back, err := readItem(again)
		if err != nil || !reflect.DeepEqual(i, back) || len(again) != i.length() {
			t.Errorf("%x is %+v, which is written as %x and read as %+v, %v", b, i, again, back, err)
		}
	})
}

func FuzzEntries(f *testing.F) {
	f.Add(appendEntries(nil, []entry{{1, 2}, {3, 4}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if entries, err := readEntries(b); err == nil && !bytes.Equal(appendEntries(nil, entries), b) {
			t.Errorf("%x is read as %v", b, entries)
		}
	})
}

func FuzzTotals(f *testing.F) {
	f.Add((&totals{{1, 2, 3}, {}, {4, 5, 6}, {1 << 40, 1 << 50, 1 << 60}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := readTotals(b); err == nil {
			if back, err := readTotals(n.encode()); err != nil || back != n {
				t.Errorf("%x is read as %v and then as %v, %v", b, n, back, err)
			}
		}
	})
}

func FuzzHandout(f *testing.F) {
	f.Add(handout{1, 77}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != handoutSize {
			return
		}
		if h, ok := readHandout(b); ok && !bytes.Equal(h.encode()[4:], b[4:]) {
			t.Errorf("%x is read as %v", b, h)
		}
	})
}

func FuzzNote(f *testing.F) {
	f.Add(note{"000007.log", 1 << 40, 77}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != noteSize {
			return
		}
		if n, ok := readNote(b); ok && !bytes.Equal(n.encode(), b) {
			t.Errorf("%x is read as %v", b, n)
		}
	})
}

// Keys sort as what they name does, and their subject can be read.
func TestKeys(t *testing.T) {
	t.Parallel()
	n := space(7)
	times := []int64{-1 << 62, -1, 0, 1, 1 << 62}
	for i := range times[1:] {
		if bytes.Compare(n.timed(times[i], 0, 9), n.timed(times[i+1], 0, 1)) >= 0 {
			t.Errorf("%d does not sort before %d", times[i], times[i+1])
		}
	}
	for _, at := range times {
		if got, s, seq, ok := readTimed(n.timed(at, engine.State, 5)); !ok || got != at || s != engine.State || seq != 5 {
			t.Errorf("readTimed = %d, %v, %d, %v", got, s, seq, ok)
		}
	}
	for _, s := range engine.Streams() {
		for _, subject := range []string{"out.a", "job.q.normal.a", "a", "at.x"} {
			if got, ok := subjectAt(s, n.index(s, subject)); !ok || got != subject {
				t.Errorf("the key of %s in %v is read as %q, %v", subject, s, got, ok)
			}
		}
	}
	for start, want := range map[string][]byte{"a": []byte("b"), "a\xff": []byte("b"), "\xff": nil} {
		if got := after([]byte(start)); !bytes.Equal(got, want) {
			t.Errorf("after %q = %q, want %q", start, got, want)
		}
	}
}

// TestRecent compares what is known of the highest keys with all of them.
func TestRecent(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var recent recent
	recent.begin("k00000000")
	all, knew := map[string][]entry{}, 0
	for i := range 40_000 {
		key := fmt.Sprintf("k%08d", max(1, i-r.IntN(50)+r.IntN(3)))
		switch r.IntN(4) {
		case 0:
			delete(all, key)
			recent.set(key, nil)
		default:
			all[key] = []entry{{uint64(i), 1}}
			recent.set(key, all[key])
		}
		look := fmt.Sprintf("k%08d", max(1, i-r.IntN(20_000)))
		if i%3 == 0 {
			look = fmt.Sprintf("k%08d", i+1)
		}
		if entries, known := recent.get([]byte(look)); known {
			if knew++; !slices.Equal(entries, all[look]) {
				t.Fatalf("of %s %v is known, want %v", look, entries, all[look])
			}
		} else if i%3 == 0 {
			t.Fatalf("of the highest key %s nothing is known", look)
		}
		if n := len(recent.new) + len(recent.old); n > 2*mostRecent {
			t.Fatalf("%d keys are kept", n)
		}
	}
	if knew < 20_000 {
		t.Errorf("only %d looks of 40000 were answered", knew)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	if err := recordStates.Check(); err != nil {
		t.Error(err)
	}
}
