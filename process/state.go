package process

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
	// Closing aborts the started tasks.
	Closing
	// Closed has no workers left.
	Closed
)

// poolStates is the table of a pool's states.
var poolStates = lifecycle.Table[State]{
	Name:   "process pool",
	States: map[State]string{Open: "open", Draining: "draining", Stopping: "stopping", Closing: "closing", Closed: "closed"},
	Moves: map[State][]State{
		Open:     {Draining, Stopping, Closing},
		Draining: {Stopping, Closing, Closed},
		Stopping: {Closing, Closed},
		Closing:  {Closed},
		Closed:   {},
	},
}

// PoolStates returns the states of a pool, in the order in which they occur.
func PoolStates() []State { return []State{Open, Draining, Stopping, Closing, Closed} }

// String returns the name of s.
func (s State) String() string { return poolStates.States[s] }

// WorkerState is the state of one worker.
type WorkerState uint8

// The states of a worker.
const (
	// WorkerStarting is not ready for tasks yet.
	WorkerStarting WorkerState = iota
	// WorkerIdle waits for a task.
	WorkerIdle
	// WorkerBusy has at least one task assigned.
	WorkerBusy
	// WorkerLeaving gets no more tasks: it finishes those it has, then exits.
	WorkerLeaving
	// WorkerGone has ended, and all its tasks are accounted for.
	WorkerGone
)

// workerStates is the table of a worker's states.
var workerStates = lifecycle.Table[WorkerState]{
	Name: "worker process",
	States: map[WorkerState]string{
		WorkerStarting: "starting", WorkerIdle: "idle", WorkerBusy: "busy", WorkerLeaving: "leaving", WorkerGone: "gone",
	},
	Moves: map[WorkerState][]WorkerState{
		WorkerStarting: {WorkerIdle, WorkerLeaving, WorkerGone},
		WorkerIdle:     {WorkerBusy, WorkerLeaving, WorkerGone},
		WorkerBusy:     {WorkerIdle, WorkerLeaving, WorkerGone},
		WorkerLeaving:  {WorkerGone},
		WorkerGone:     {},
	},
}

// String returns the name of s.
func (s WorkerState) String() string { return workerStates.States[s] }

// taskState is the state of one accepted task.
type taskState uint8

const (
	taskWaiting taskState = iota // in the queue, or waiting for a place in it
	taskSent                     // assigned to a worker
	taskEnded                    // has its outcome
)

var taskStates = lifecycle.Table[taskState]{
	Name:   "task",
	States: map[taskState]string{taskWaiting: "waiting", taskSent: "sent", taskEnded: "ended"},
	Moves: map[taskState][]taskState{
		taskWaiting: {taskSent, taskEnded},
		taskSent:    {taskWaiting, taskEnded}, // waits again if it was not started
		taskEnded:   {},
	},
}
