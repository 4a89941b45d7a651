package broker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
)

var (
	mail  = engine.Consumer{Queue: "mail", Priority: "high"}
	other = engine.Consumer{Queue: "mai", Priority: "lhigh"}
)

func slate(t *testing.T, dir, boot string, fresh bool) *marks {
	t.Helper()
	m, _, err := openMarks(dir, boot, fresh)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.close(false) })
	return m
}

func wantMark(t *testing.T, m *marks, c engine.Consumer, seq uint64, sure bool) {
	t.Helper()
	if s, ok := m.marked(c); s != seq || ok != sure {
		t.Errorf("marked(%v) = %d, %v, want %d, %v", c, s, ok, seq, sure)
	}
}

func note(t *testing.T, m *marks, c engine.Consumer, seqs ...uint64) {
	t.Helper()
	for _, s := range seqs {
		if err := m.mark(c, s); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMarksOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := slate(t, dir, "boot", true)
	wantMark(t, m, mail, 0, true)
	note(t, m, mail, 3, 9, 7)
	note(t, m, other, 2)
	wantMark(t, m, mail, 0, true) // this process's own do not count
	// Nothing is closed: the process was killed.
	m = slate(t, dir, "boot", false)
	wantMark(t, m, mail, 9, true)
	wantMark(t, m, other, 2, true)
	note(t, m, mail, 4) // lower than what is known
	m = slate(t, dir, "boot", false)
	wantMark(t, m, mail, 9, true)
	note(t, m, mail, 12)
	m = slate(t, dir, "boot", false)
	wantMark(t, m, mail, 12, true)
	wantMark(t, m, other, 2, true)
	if info, err := os.Stat(m.path); err != nil || info.Size() != 3*markSize {
		t.Errorf("the file has %v bytes, %v", info.Size(), err)
	}
}

// TestBegun lets messages begin and end: of each process that is killed the next
// knows which had begun.
func TestBegun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := slate(t, dir, "boot", true)
	note(t, m, mail, 3)
	for _, seq := range []uint64{7, 5, 6, 5} {
		if err := m.begin(seq); err != nil {
			t.Fatal(err)
		}
	}
	m.end(5)
	m.end(99)
	if err := m.begin(8); err != nil {
		t.Fatal(err)
	}
	if m.wasBegun(7) {
		t.Error("what this process lets begin was left by an earlier one")
	}
	for round := range 3 { // what is not ended stays
		m = slate(t, dir, "boot", false)
		for seq, want := range map[uint64]bool{5: false, 6: true, 7: true, 8: true, 3: false} {
			if got := m.wasBegun(seq); got != want {
				t.Errorf("process %d: wasBegun(%d) = %v, want %v", round, seq, got, want)
			}
		}
		wantMark(t, m, mail, 3, true)
	}
	m.end(7)
	if err := m.begin(20); err != nil {
		t.Fatal(err)
	}
	m = slate(t, dir, "boot", false)
	if m.wasBegun(7) || !m.wasBegun(20) {
		t.Error("the slot of what has ended was not written over")
	}
	if info, err := os.Stat(m.path); err != nil || info.Size() != 5*markSize {
		t.Errorf("the file has %v bytes, %v, want room for a mark and three", info.Size(), err)
	}
}

func TestMarksAfterANewStartOfTheMachine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		clean      bool
		boot, next string
		sure       bool
	}{
		{"power was lost", false, "a", "b", false},
		{"closed in order", true, "a", "b", true},
		{"boot not known", false, "", "", false},
		{"boot not known, closed", true, "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			m := slate(t, dir, c.boot, true)
			note(t, m, mail, 5)
			if c.clean {
				if err := m.close(true); err != nil {
					t.Fatal(err)
				}
				if err := m.mark(mail, 6); err == nil {
					t.Error("closed marks take more")
				}
			}
			m = slate(t, dir, c.next, false)
			wantMark(t, m, mail, 5, c.sure)
			// A crash does not make sure what was not.
			m = slate(t, dir, c.next, false)
			wantMark(t, m, mail, 5, c.sure && c.next != "")
			if err := m.close(true); err != nil {
				t.Fatal(err)
			}
			wantMark(t, slate(t, dir, c.next, false), mail, 5, true)
		})
	}
}

func TestDamagedMarks(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(b []byte) []byte{
		"missing": nil,
		"head":    func(b []byte) []byte { b[9] ^= 1; return b },
		"slot":    func(b []byte) []byte { b[markSize+17] ^= 1; return b },
		"short":   func(b []byte) []byte { return b[:len(b)-1] },
		"empty":   func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			m := slate(t, dir, "boot", true)
			note(t, m, mail, 5)
			note(t, m, other, 6)
			path := filepath.Join(dir, marksFile)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if harm == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, harm(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			m, damage, err := openMarks(dir, "boot", false)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = m.close(false) }()
			if _, sure := m.marked(mail); sure || len(damage) != 1 {
				t.Errorf("sure is %v, damage %v", sure, damage)
			}
		})
	}
}

func FuzzMarks(f *testing.F) {
	good := appendMark(appendMark(appendMarksHead(nil, cleanFlag, bootHash("b")), keyOf(mail), 7), keyOf(other), 8)
	f.Add(good)
	f.Add(good[:40])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m := readMarks(b)
		if len(m.seqs) > len(b)/markSize {
			t.Fatalf("%d marks in %d bytes", len(m.seqs), len(b))
		}
		if m.bad {
			return
		}
		// What holds can be written and read again.
		k := &marks{boot: m.boot, old: m.seqs}
		again := readMarks(k.encode(m.flag))
		if again.bad || again.flag != m.flag || again.boot != m.boot || len(again.seqs) != len(m.seqs) {
			t.Fatalf("%+v became %+v", m, again)
		}
	})
}

func BenchmarkMark(b *testing.B) {
	m, _, err := openMarks(b.TempDir(), "boot", true)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = m.close(false) }()
	for n := range b.N {
		if err := m.mark(mail, uint64(n)); err != nil {
			b.Fatal(err)
		}
	}
}
