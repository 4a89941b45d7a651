package wasm

import "github.com/bullpen-run/bullpen/internal/lifecycle"

// State is the state of a pool.
type State uint8

// The states of a pool.
const (
	// Open accepts tasks.
	Open State = iota
	// Draining finishes the accepted tasks.
	Draining
	// Stopping finishes the started tasks.
	Stopping
	// Closing ends the started tasks.
	Closing
	// Closed has no instances left.
	Closed
)

// poolStates is the table of a pool's states.
var poolStates = lifecycle.Table[State]{
	Name:   "wasm pool",
	States: map[State]string{Open: "open", Draining: "draining", Stopping: "stopping", Closing: "closing", Closed: "closed"},
	Moves: map[State][]State{
		Open:     {Draining, Stopping, Closing},
		Draining: {Stopping, Closing, Closed},
		Stopping: {Closing, Closed},
		Closing:  {Closed},
		Closed:   {},
	},
}

// String returns the name of s.
func (s State) String() string { return poolStates.Word(s) }

// taskState is the state of one accepted task.
type taskState uint8

const (
	taskNew     taskState = iota // not accepted yet, perhaps waiting for a place in the queue
	taskWaiting                  // in the queue
	taskRunning                  // given to an instance
	taskEnded                    // has its outcome
)

// taskStates is the table of a task's states.
var taskStates = lifecycle.Table[taskState]{
	Name:   "task of a wasm pool",
	States: map[taskState]string{taskNew: "new", taskWaiting: "waiting", taskRunning: "running", taskEnded: "ended"},
	Moves: map[taskState][]taskState{
		taskNew:     {taskWaiting, taskRunning, taskEnded},
		taskWaiting: {taskRunning, taskEnded},
		taskRunning: {taskEnded},
		taskEnded:   {},
	},
}
