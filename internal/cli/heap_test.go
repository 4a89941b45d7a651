package cli

import "testing"

func TestHeapMayGrowWhileItIsSmall(t *testing.T) {
	t.Parallel()
	for alive, want := range map[uint64]int{0: 400, 4 << 20: 400, 24 << 20: 200, 48 << 20: 100, 1 << 30: 100} {
		if got := percent(alive); got != want {
			t.Errorf("a heap with %d bytes alive may grow by %d percent, want %d", alive, got, want)
		}
	}
}
