package daemon

import "github.com/bullpen-run/bullpen/internal/lifecycle"

// State is the state of a daemon.
type State uint8

// The states of a daemon.
const (
	// Starting: it opens the queue and the pools.
	Starting State = iota
	// Serving: it takes jobs and runs them.
	Serving
	// Stopping: it takes no jobs, and finishes running ones within the grace.
	Stopping
	// Closing: it aborts running jobs.
	Closing
	// Closed: it has ended.
	Closed
)

// states is the table of a daemon's states.
var states = lifecycle.Table[State]{
	Name:   "daemon",
	States: map[State]string{Starting: "starting", Serving: "serving", Stopping: "stopping", Closing: "closing", Closed: "closed"},
	Moves: map[State][]State{
		Starting: {Serving, Stopping, Closing, Closed},
		Serving:  {Stopping, Closing},
		Stopping: {Closing, Closed},
		Closing:  {Closed},
		Closed:   {},
	},
}

// String returns the word for s.
func (s State) String() string { return states.Word(s) }
