// Package lifecycle implements checked state machines. A [Table] names the states of a
// thing and lists its legal moves, and a [Machine] makes each move by one
// compare-and-swap, so that of two goroutines that make the same move only one succeeds.
// A refused move returns an error with the state that was found. What was destroyed
// cannot come back because a goroutine looked, decided and stored in three steps.
//
// A package that owns a table declares it once and checks it in a test:
//
//	type state uint8
//
//	const (
//		idle state = iota
//		busy
//		gone
//	)
//
//	var states = lifecycle.Table[state]{
//		Name:   "worker",
//		States: map[state]string{idle: "idle", busy: "busy", gone: "gone"},
//		Moves:  map[state][]state{idle: {busy, gone}, busy: {idle, gone}, gone: {}},
//	}
//
// The package imports only the standard library.
package lifecycle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Limit is the largest number of states of one table. States are numbered from
// 0 to Limit-1.
const Limit = 64

// Table names the states of S and their legal moves. A final state has an empty row in
// Moves. Use a Table by pointer, and do not change its fields once a [Machine] uses it;
// then it is safe for concurrent use.
type Table[S ~uint8] struct {
	// Name is the thing that has these states, for errors and documentation.
	Name string
	// States names each state.
	States map[S]string
	// Moves lists, for each state, the states that can follow.
	Moves map[S][]S

	once sync.Once
	bits rules // computed once from Moves
}

// rules has one bit for each legal move: bit b of word a for a move from a to b.
type rules [Limit]uint64

func (r *rules) legal(from, to uint8) bool {
	return from < Limit && r[from]>>to&1 != 0
}

// compile returns the legal moves as bits. States beyond Limit have no moves.
func (t *Table[S]) compile() *rules {
	t.once.Do(func() {
		for from, row := range t.Moves {
			for _, to := range row {
				if from < Limit && to < Limit {
					t.bits[from] |= 1 << to
				}
			}
		}
	})
	return &t.bits
}

// Word returns the name of s, or its number if it has no name.
func (t *Table[S]) Word(s S) string {
	if w := t.States[s]; w != "" {
		return w
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Check returns all faults of t, joined: states without a name or with a duplicate name,
// states without a row, moves to or from unnamed states, duplicate moves, numbers beyond
// [Limit], and unreachable states. Machines begin in one of first; without first, in the
// state with the lowest number. Tests of the package that owns t call it.
func (t *Table[S]) Check(first ...S) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("table %q: %w", t.Name, fmt.Errorf(format, args...)))
	}
	if t.Name == "" {
		fault("the table has no name: set Name")
	}
	if len(t.States) == 0 {
		fault("there are no states: set States")
		return errors.Join(faults...)
	}
	t.checkStates(fault)
	t.checkMoves(fault)
	t.checkReach(first, fault)
	return errors.Join(faults...)
}

func (t *Table[S]) checkStates(fault func(string, ...any)) {
	owner := map[string]S{}
	for _, s := range slices.Sorted(maps.Keys(t.States)) {
		word := t.States[s]
		if word == "" {
			fault("state %d has an empty name", uint8(s))
		} else if other, taken := owner[word]; taken {
			fault("states %d and %d have the same name %q", uint8(other), uint8(s), word)
		} else {
			owner[word] = s
		}
		if s >= Limit {
			fault("state %d is beyond %d, the largest number that a state may have", uint8(s), Limit-1)
		}
		if _, ok := t.Moves[s]; !ok {
			fault("%s has no row in Moves: list its moves, or {} when it is final", t.Word(s))
		}
	}
}

func (t *Table[S]) checkMoves(fault func(string, ...any)) {
	for _, from := range slices.Sorted(maps.Keys(t.Moves)) {
		if _, ok := t.States[from]; !ok {
			fault("Moves has a row for state %d, which is not in States", uint8(from))
		}
		seen := map[S]bool{}
		for _, to := range t.Moves[from] {
			if _, ok := t.States[to]; !ok {
				fault("%s may become state %d, which is not in States", t.Word(from), uint8(to))
			}
			if seen[to] {
				fault("the move from %s to %s is listed twice", t.Word(from), t.Word(to))
			}
			seen[to] = true
		}
	}
}

func (t *Table[S]) checkReach(first []S, fault func(string, ...any)) {
	all := slices.Sorted(maps.Keys(t.States))
	if len(first) == 0 {
		first = all[:1]
	}
	reached := map[S]bool{}
	todo := slices.Clone(first)
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !reached[s] {
			reached[s] = true
			todo = append(todo, t.Moves[s]...)
		}
	}
	for _, s := range first {
		if _, ok := t.States[s]; !ok {
			fault("machines begin in state %d, which is not in States", uint8(s))
		}
	}
	for _, s := range all {
		if !reached[s] {
			fault("%s is never reached", t.Word(s))
		}
	}
}

// Markdown returns t as a Markdown table, with the states ordered by number and the moves
// in the order of t.
func (t *Table[S]) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | may become |\n|---|---|\n", t.Name)
	for _, s := range slices.Sorted(maps.Keys(t.States)) {
		words := make([]string, 0, len(t.Moves[s]))
		for _, to := range t.Moves[s] {
			words = append(words, t.Word(to))
		}
		if len(words) == 0 {
			words = append(words, "(final)")
		}
		fmt.Fprintf(&b, "| %s | %s |\n", t.Word(s), strings.Join(words, ", "))
	}
	return b.String()
}
