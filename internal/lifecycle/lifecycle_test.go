package lifecycle

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

type state uint8

const (
	idle state = iota
	busy
	gone
)

func worker() *Table[state] {
	return &Table[state]{
		Name:   "worker",
		States: map[state]string{idle: "idle", busy: "busy", gone: "gone"},
		Moves:  map[state][]state{idle: {busy, gone}, busy: {idle, gone}, gone: {}},
	}
}

// checkCases are changes to a sound table, and parts of what Check says of each;
// none means no fault.
var checkCases = []struct {
	name   string
	change func(*Table[state])
	first  []state
	want   []string
}{
	{name: "sound", change: func(*Table[state]) {}},
	{name: "no name", change: func(w *Table[state]) { w.Name = "" }, want: []string{"the table has no name"}},
	{name: "empty", change: func(w *Table[state]) { w.States = nil }, want: []string{"there are no states"}},
	{
		name:   "unnamed state",
		change: func(w *Table[state]) { w.States[busy] = "" },
		want:   []string{"state 1 has an empty name"},
	},
	{
		name:   "same name",
		change: func(w *Table[state]) { w.States[gone] = "idle" },
		want:   []string{`states 0 and 2 have the same name "idle"`},
	},
	{
		name:   "no row",
		change: func(w *Table[state]) { delete(w.Moves, gone) },
		want:   []string{"gone has no row in Moves"},
	},
	{
		name:   "row of a stranger",
		change: func(w *Table[state]) { w.Moves[9] = []state{gone} },
		want:   []string{"Moves has a row for state 9"},
	},
	{
		name:   "move to a stranger",
		change: func(w *Table[state]) { w.Moves[busy] = append(w.Moves[busy], 9) },
		want:   []string{"busy may become state 9"},
	},
	{
		name:   "twice",
		change: func(w *Table[state]) { w.Moves[idle] = append(w.Moves[idle], busy) },
		want:   []string{"the move from idle to busy is listed twice"},
	},
	{
		name:   "too many",
		change: func(w *Table[state]) { w.States[64], w.Moves[64] = "far", nil },
		want:   []string{"state 64 is beyond 63", "far is never reached"},
	},
	{
		name:   "unreached",
		change: func(w *Table[state]) { w.Moves[idle] = []state{gone} },
		want:   []string{"busy is never reached"},
	},
	{
		name:   "reached from another beginning",
		change: func(w *Table[state]) { w.Moves[busy] = []state{gone}; w.Moves[idle] = []state{gone} },
		first:  []state{idle, busy},
	},
	{
		name:   "beginning unknown",
		change: func(*Table[state]) {},
		first:  []state{idle, 9},
		want:   []string{"machines begin in state 9"},
	},
	{
		name:   "all faults at once",
		change: func(w *Table[state]) { delete(w.Moves, gone); w.Moves[idle] = []state{9, gone} },
		want:   []string{"gone has no row", "idle may become state 9", "busy is never reached"},
	},
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, c := range checkCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			table := worker()
			c.change(table)
			err := table.Check(c.first...)
			if (err == nil) != (len(c.want) == 0) {
				t.Fatalf("Check() = %v, want faults %q", err, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Check() = %v, which does not say %q", err, want)
				}
			}
		})
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	want := "| worker | may become |\n|---|---|\n| idle | busy, gone |\n| busy | idle, gone |\n| gone | (final) |\n"
	if got := worker().Markdown(); got != want {
		t.Errorf("Markdown() =\n%swant\n%s", got, want)
	}
}

func TestMove(t *testing.T) {
	t.Parallel()
	var m Machine[state]
	m.Init(worker(), idle)
	if err := m.Move(idle, busy); err != nil {
		t.Fatal(err)
	}
	if m.State() != busy || m.String() != "busy" {
		t.Fatalf("state is %v (%s), want busy", m.State(), &m)
	}
	wantRefused(t, m.Move(idle, gone), MoveError{"worker", "idle", "gone", "busy", true})
	wantRefused(t, m.Move(gone, idle), MoveError{"worker", "gone", "idle", "busy", false})
	wantRefused(t, m.Move(busy, busy), MoveError{"worker", "busy", "busy", "busy", false})
	wantRefused(t, m.Move(200, 201), MoveError{"worker", "state(200)", "state(201)", "busy", false})
	if m.State() != busy {
		t.Fatalf("refused moves changed the state to %s", &m)
	}
	if from, err := m.MoveAny(gone); err != nil || from != busy {
		t.Fatalf("MoveAny(gone) = %v, %v, want from busy", from, err)
	}
	from, err := m.MoveAny(idle)
	if from != gone {
		t.Errorf("MoveAny(idle) was refused from %v, want gone", from)
	}
	wantRefused(t, err, MoveError{"worker", "gone", "idle", "gone", false})
}

func wantRefused(t *testing.T, err error, want MoveError) {
	t.Helper()
	var got *MoveError
	if !errors.As(err, &got) || *got != want {
		t.Errorf("error is %#v, want %#v", err, want)
	}
}

func TestMoveErrorSays(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]MoveError{
		"worker cannot go from idle to gone: it is busy":           {"worker", "idle", "gone", "busy", true},
		"worker may not go from gone to idle":                      {"worker", "gone", "idle", "busy", false},
		"state machine was not initialised: call Init before Move": {From: "state(0)", To: "state(1)", Found: "state(0)"},
	} {
		if got := e.Error(); got != want {
			t.Errorf("Error() = %q, want %q", got, want)
		}
	}
}

func TestBeforeInitEveryMoveIsRefused(t *testing.T) {
	t.Parallel()
	var m Machine[state]
	wantRefused(t, m.Move(idle, busy), MoveError{"", "state(0)", "state(1)", "state(0)", false})
	_, err := m.MoveAny(gone)
	wantRefused(t, err, MoveError{"", "state(0)", "state(2)", "state(0)", false})
}

// TestDestroyedStaysDestroyed lets users and destroyers race for one machine.
// Exactly one destroyer wins, and no user brings the machine back.
func TestDestroyedStaysDestroyed(t *testing.T) {
	t.Parallel()
	table := worker()
	for range 2000 {
		var m Machine[state]
		m.Init(table, idle)
		var destroyed, back, illegal atomic.Int32
		var all sync.WaitGroup
		begin := make(chan struct{})
		check := func(err error) {
			var refused *MoveError
			if errors.As(err, &refused) && !refused.Legal {
				illegal.Add(1)
			}
		}
		for range 3 { // users; they end after 20 rounds, and the test waits for them
			all.Go(func() {
				<-begin
				for range 20 {
					if err := m.Move(idle, busy); err != nil {
						check(err)
						continue
					}
					check(m.Move(busy, idle))
				}
			})
		}
		for range 2 { // destroyers; they end after one try, and the test waits for them
			all.Go(func() {
				<-begin
				if _, err := m.MoveAny(gone); err == nil {
					destroyed.Add(1)
				}
				for range 20 {
					if m.State() != gone {
						back.Add(1)
					}
				}
			})
		}
		close(begin)
		all.Wait()
		if destroyed.Load() != 1 || back.Load() != 0 || illegal.Load() != 0 || m.State() != gone {
			t.Fatalf("destroyed %d times, seen alive after it %d times, %d illegal moves, ends %s; want 1, 0, 0, gone",
				destroyed.Load(), back.Load(), illegal.Load(), &m)
		}
	}
}

// TestMovesOutOfAStateAreOwnedOnce counts how many of many callers make one
// move: one.
func TestMovesOutOfAStateAreOwnedOnce(t *testing.T) {
	t.Parallel()
	table := worker()
	for range 2000 {
		var m Machine[state]
		m.Init(table, idle)
		var won atomic.Int32
		var all sync.WaitGroup
		for range 4 { // they end after one try, and the test waits for them
			all.Go(func() {
				if m.Move(idle, busy) == nil {
					won.Add(1)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d callers made the same move, want 1", won.Load())
		}
	}
}

func TestMoveAllocatesNothing(t *testing.T) {
	var m Machine[state]
	m.Init(worker(), idle)
	if n := testing.AllocsPerRun(100, func() { roundTrip(&m) }); n != 0 {
		t.Errorf("two moves made %v allocations, want 0", n)
	}
}

func roundTrip(m *Machine[state]) bool {
	_, err := m.MoveAny(busy)
	return err == nil && m.Move(busy, idle) == nil
}

func BenchmarkMove(b *testing.B) {
	var m Machine[state]
	m.Init(worker(), idle)
	from, to := idle, busy
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Move(from, to); err != nil {
			b.Fatal(err)
		}
		from, to = to, from
	}
}
