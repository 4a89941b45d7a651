// Package lifecycle is a checked state machine: a [Table] names the states of a
// thing and lists its legal moves, and a [Machine] makes each move by one
// compare-and-swap, so that two parties which want to move the same thing can
// not both win. A move that is refused is an error which says what was found;
// nothing that has been destroyed comes back to life because someone looked,
// decided and stored in three steps.
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
// The package imports the standard library only.
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

// Table names the states of S and their legal moves. A final state has an empty
// row in Moves. A Table is used by pointer, and its fields are not changed once
// a [Machine] uses it; then it is safe for concurrent use.
type Table[S ~uint8] struct {
	// Name is the thing that has these states, for errors and documents.
	Name string
	// States has the word for each state.
	States map[S]string
	// Moves has, for each state, the states that it may become.
	Moves map[S][]S

	once sync.Once
	bits rules // made by once from Moves
}

// rules has one bit for each legal move: bit b of word a for a move from a to b.
type rules [Limit]uint64

func (r *rules) legal(from, to uint8) bool {
	return from < Limit && r[from]>>to&1 != 0
}

// compile returns the legal moves as bits. States beyond Limit have none.
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

// Word returns the word for s, and its number where it has none.
func (t *Table[S]) Word(s S) string {
	if w := t.States[s]; w != "" {
		return w
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Check returns all faults of t, joined: states without a name or with a name
// that another has, states without a row, moves to or from states that are not
// named, moves listed twice, numbers beyond [Limit], and states which no
// sequence of moves reaches. Machines begin in one of first; without first, in
// the state with the lowest number. Tests of the package that owns t call it.
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

// Markdown returns t as a Markdown table, states in the order of their numbers
// and moves in the order in which t lists them.
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
