package record

import (
	"fmt"
	"testing"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// TestCutAttempts counts attempts whose node died, once each.
func TestCutAttempts(t *testing.T) {
	t.Parallel()
	known := Tries{Started: 2, Open: true}
	known.Cut(stamp(0))
	a := known.History[0]
	if known.Open || known.Lost != 1 || known.Started != 3 || a.Outcome != bullpen.Lost || a.Number != 3 || !a.Ended.Equal(stamp(0)) || a.ExitCode != -1 || a.Error == "" {
		t.Errorf("%+v, want one attempt that was cut off", known)
	}
	if !known.CutOff() || (&Tries{Started: 1, History: []job.Attempt{{Outcome: bullpen.Failed}}}).CutOff() {
		t.Error("cut off is not what was cut off")
	}
}

// TestHistory keeps the last attempts.
func TestHistory(t *testing.T) {
	t.Parallel()
	var known Tries
	for n := 1; n <= 3*mostHistory; n++ {
		known.Add(job.Attempt{Error: fmt.Sprint(n)})
		if known.Started != n || len(known.History) != min(n, mostHistory) {
			t.Fatalf("after %d attempts %d are counted and %d noted", n, known.Started, len(known.History))
		}
		first := n - len(known.History) + 1
		for i, a := range known.History {
			if a.Number != first+i || a.Error != fmt.Sprint(first+i) {
				t.Fatalf("after %d attempts number %d is %+v", n, first+i, a)
			}
		}
	}
}
