package jet

import (
	"testing"
	"time"
)

func FuzzParseBack(f *testing.F) {
	for _, words := range []string{"", "1 1 0", "18446744073709551615 7 1000000000", "0 1 1", "1  1", "1 1 1 1", "1 -1 1", "1 1 99999999999999999999"} {
		f.Add([]byte(words))
	}
	f.Fuzz(func(t *testing.T, words []byte) {
		seq, deliveries, delay, ok := parseBack(words)
		if !ok {
			return
		}
		if seq == 0 || delay < 0 {
			t.Errorf("parseBack(%q) = %d, %d, %v", words, seq, deliveries, delay)
		}
		s, d, w, ok := parseBack(backWords(seq, deliveries, delay))
		if !ok || s != seq || d != deliveries || w != delay {
			t.Errorf("%q reads as %d, %d, %v, and what is written of that as %d, %d, %v, %v", words, seq, deliveries, delay, s, d, w, ok)
		}
	})
}

func TestGivenBack(t *testing.T) {
	var b back
	if b.known(7, 1) {
		t.Error("a delivery of which nobody said anything is known to be given back")
	}
	b.note(7, 2, 0)
	b.note(7, 1, time.Second) // comes late
	for deliveries, want := range map[uint64]bool{1: true, 2: true, 3: false} {
		if b.known(7, deliveries) != want {
			t.Errorf("known(7, %d) is %v, want %v", deliveries, !want, want)
		}
	}
	b.ended(7)
	if b.known(7, 1) {
		t.Error("what has ended is still known")
	}
	// Old ones go: the table does not grow with all that was ever given back.
	for seq := range uint64(10 * manyGivenBack) {
		b.note(seq, 1, 0)
		b.mu.Lock()
		b.given[seq] = returned{1, time.Now().Add(-time.Second)}
		b.mu.Unlock()
	}
	if n := len(b.given); n > manyGivenBack+1 {
		t.Errorf("%d are remembered, want at most %d", n, manyGivenBack+1)
	}
}
