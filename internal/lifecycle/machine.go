package lifecycle

import (
	"fmt"
	"sync/atomic"
)

// Machine holds one state of a [Table]. It is a field of the struct whose state it holds,
// needs no allocation, and is safe for concurrent use after Init. It must not be copied.
type Machine[S ~uint8] struct {
	state atomic.Uint32
	rules *rules    // of table; written by Init only
	table *Table[S] // written by Init only
}

// Init puts m into state first of table. It is called once, before m is shared. Before
// Init every move is refused.
func (m *Machine[S]) Init(table *Table[S], first S) {
	m.table = table
	m.rules = table.compile()
	m.state.Store(uint32(first))
}

// State returns the state of m. Another goroutine may move m before the caller uses the
// result: decide by Move, not by State.
func (m *Machine[S]) State() S { return S(m.state.Load()) }

// String returns the name of the state of m.
func (m *Machine[S]) String() string { return m.word(m.State()) }

// Move moves m from one state to another. If the table does not list the move, or m is in
// another state, it returns a [*MoveError] and leaves m unchanged. A move costs one
// compare-and-swap and does not allocate.
func (m *Machine[S]) Move(from, to S) error {
	if m.rules != nil && m.rules.legal(uint8(from), uint8(to)) && m.state.CompareAndSwap(uint32(from), uint32(to)) {
		return nil
	}
	return m.refuse(from, to)
}

// MoveAny moves m to a state from any other, and returns the state that it was in. If the
// table lists no such move, it returns a [*MoveError] and leaves m unchanged. Of several
// concurrent callers exactly one makes the move out of each state.
func (m *Machine[S]) MoveAny(to S) (from S, err error) {
	for {
		found := m.state.Load()
		from = S(found)
		if m.rules == nil || !m.rules.legal(uint8(from), uint8(to)) {
			return from, m.illegal(from, to)
		}
		if m.state.CompareAndSwap(found, uint32(to)) {
			return from, nil
		}
	}
}

// refuse explains why Move failed. It reads the state again, so Found may be newer than
// what Move saw, and in a race may even equal From.
func (m *Machine[S]) refuse(from, to S) error {
	if m.rules == nil || !m.rules.legal(uint8(from), uint8(to)) {
		return m.illegal(from, to)
	}
	return &MoveError{
		Machine: m.table.Name, Legal: true,
		From: m.word(from), To: m.word(to), Found: m.word(m.State()),
	}
}

func (m *Machine[S]) illegal(from, to S) error {
	e := &MoveError{From: m.word(from), To: m.word(to), Found: m.word(m.State())}
	if m.table != nil {
		e.Machine = m.table.Name
	}
	return e
}

func (m *Machine[S]) word(s S) string {
	if m.table == nil {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return m.table.Word(s)
}

// MoveError describes a refused move. States are given by their names.
type MoveError struct {
	// Machine is the name of the table; empty if Init was never called.
	Machine string
	// From and To are the requested move.
	From, To string
	// Found is the state that the machine was in.
	Found string
	// Legal is true if the table lists the move and the machine was in another state:
	// another caller was faster. It is false if no machine can make the move, which is a
	// fault of the caller.
	Legal bool
}

// Error gives the machine, the move and the reason on one line.
func (e *MoveError) Error() string {
	switch {
	case e.Machine == "":
		return "state machine was not initialised: call Init before Move"
	case e.Legal:
		return fmt.Sprintf("%s cannot go from %s to %s: it is %s", e.Machine, e.From, e.To, e.Found)
	default:
		return fmt.Sprintf("%s may not go from %s to %s", e.Machine, e.From, e.To)
	}
}
