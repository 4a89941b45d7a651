package queue

import (
	"fmt"
	"testing"

	bullpen "github.com/bullpen-run/bullpen"
)

// TestCutAttempts counts attempts whose node died, once each.
func TestCutAttempts(t *testing.T) {
	t.Parallel()
	known := tries{started: 2, open: true}
	known.cut(now)
	a := known.history[0]
	if known.open || known.lost != 1 || known.started != 3 || a.Outcome != bullpen.Lost || a.Number != 3 || !a.Ended.Equal(now) || a.ExitCode != -1 || a.Error == "" {
		t.Errorf("%+v, want one attempt that was cut off", known)
	}
	if !known.cutOff() || (&tries{started: 1, history: []Attempt{{Outcome: bullpen.Failed}}}).cutOff() {
		t.Error("cut off is not what was cut off")
	}
}

// TestHistory keeps the last attempts.
func TestHistory(t *testing.T) {
	t.Parallel()
	var known tries
	for n := 1; n <= 3*mostHistory; n++ {
		known.add(Attempt{Error: fmt.Sprint(n)})
		if known.started != n || len(known.history) != min(n, mostHistory) {
			t.Fatalf("after %d attempts %d are counted and %d noted", n, known.started, len(known.history))
		}
		first := n - len(known.history) + 1
		for i, a := range known.history {
			if a.Number != first+i || a.Error != fmt.Sprint(first+i) {
				t.Fatalf("after %d attempts number %d is %+v", n, first+i, a)
			}
		}
	}
}
