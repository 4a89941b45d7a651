package queue

import (
	"fmt"
	"testing"

	bullpen "github.com/bullpen-run/bullpen"
)

func TestSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		known      int // deliveries that are stored
		deliveries int
		again      bool
		lost       int
	}{
		{"the first", 0, 1, false, 0},
		{"the second, of which nothing is known", 0, 2, false, 1},
		{"the second, after one that is known", 1, 2, false, 0},
		{"the second, after one that is known, said again", 1, 2, true, 0},
		{"many of which nothing is known", 0, 8, false, 7},
		{"some of which nothing is known", 3, 8, true, 4},
		{"fewer than are known", 5, 2, false, 0},
		{"the first, that may be another", 0, 1, true, 1},
		{"the first of a new server, after one that is known", 1, 1, true, 0},
	} {
		known := tries{deliveries: c.known, started: 2}
		known.seen(c.deliveries, c.again, now)
		if known.lost != c.lost || known.started != 2+c.lost || known.deliveries != c.deliveries {
			t.Errorf("%s: %+v, want %d lost", c.name, known, c.lost)
		}
		if len(known.history) != min(c.lost, mostHistory) {
			t.Errorf("%s: %d attempts are noted, want %d", c.name, len(known.history), c.lost)
		}
		for i, a := range known.history {
			if a.Outcome != bullpen.Lost || a.Number != 3+i || !a.Ended.Equal(now) || a.ExitCode != -1 || a.Error == "" {
				t.Errorf("%s: attempt %d is noted as %+v", c.name, i, a)
			}
		}
	}
	huge := tries{}
	huge.seen(1<<40, false, now)
	if huge.lost != largestAttempts {
		t.Errorf("of a number of deliveries that cannot be %d are taken for lost, want %d", huge.lost, largestAttempts)
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
