package lifecycle

import (
	"fmt"
	"sync/atomic"
)

// Machine is one thing in one state of a [Table]. It stands inline in the
// struct whose state it is, needs no allocation, and is safe for concurrent use
// after Init. It must not be copied.
type Machine[S ~uint8] struct {
	state atomic.Uint32
	rules *rules    // of table; written by Init only
	table *Table[S] // written by Init only
}

// Init puts m under the rules of table, in state first. It is called once,
// before m is shared. Before Init every move is refused.
func (m *Machine[S]) Init(table *Table[S], first S) {
	m.table = table
	m.rules = table.compile()
	m.state.Store(uint32(first))
}

// State returns the state of m. Another goroutine may have moved m by the time
// the caller looks at it: decide by Move, not by State.
func (m *Machine[S]) State() S { return S(m.state.Load()) }

// String returns the word for the state of m.
func (m *Machine[S]) String() string { return m.word(m.State()) }

// Move moves m from one state to another. The error is a [*MoveError] when the
// table does not list the move, or when m is in another state; m is then as it
// was. A move that is made costs one compare-and-swap and allocates nothing.
func (m *Machine[S]) Move(from, to S) error {
	if m.rules != nil && m.rules.legal(uint8(from), uint8(to)) && m.state.CompareAndSwap(uint32(from), uint32(to)) {
		return nil
	}
	return m.refuse(from, to)
}

// MoveAny moves m to a state from whatever state it is in, and returns the
// state that it was in. The error is a [*MoveError] when the table lists no
// such move; m is then as it was. Of many callers at once exactly one makes the
// move out of each state.
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

// refuse explains why Move made no move. It looks again, so Found may be newer
// than what Move saw, and in a race may even equal From.
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

// MoveError says that a move was refused and why. States are given by their
// words.
type MoveError struct {
	// Machine is the name of the table; empty when Init was never called.
	Machine string
	// From and To are the move that was asked for.
	From, To string
	// Found is the state that the machine was in.
	Found string
	// Legal is true when the table lists the move and the machine was in
	// another state: someone else was faster. It is false when no machine may
	// make the move, which is a fault of the caller.
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
