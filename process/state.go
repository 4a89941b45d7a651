package process

import "github.com/bullpen-run/bullpen/internal/lifecycle"

// State is the state of a pool.
type State uint8

// The states of a pool.
const (
	// Open takes tasks.
	Open State = iota
	// Draining finishes what it has accepted.
	Draining
	// Stopping finishes what has started.
	Stopping
	// Closing aborts what has started.
	Closing
	// Closed has no worker left.
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

// PoolStates returns the states of a pool, in the order in which it may have them.
func PoolStates() []State { return []State{Open, Draining, Stopping, Closing, Closed} }

// String returns the word for s.
func (s State) String() string { return poolStates.States[s] }

// WorkerState is the state of one worker.
type WorkerState uint8

// The states of a worker.
const (
	// WorkerStarting has no right to tasks yet.
	WorkerStarting WorkerState = iota
	// WorkerIdle waits for a task.
	WorkerIdle
	// WorkerBusy has at least one task in hand.
	WorkerBusy
	// WorkerLeaving takes no more tasks: it finishes what it has, then exits.
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

// String returns the word for s.
func (s WorkerState) String() string { return workerStates.States[s] }

// taskState is the state of one accepted task.
type taskState uint8

const (
	taskWaiting taskState = iota // in the queue, or blocked before it
	taskSent                     // in hand of a worker
	taskEnded                    // has its outcome
)

var taskStates = lifecycle.Table[taskState]{
	Name:   "task",
	States: map[taskState]string{taskWaiting: "waiting", taskSent: "sent", taskEnded: "ended"},
	Moves: map[taskState][]taskState{
		taskWaiting: {taskSent, taskEnded},
		taskSent:    {taskWaiting, taskEnded}, // waiting again: it was not started
		taskEnded:   {},
	},
}
