package pool

import "github.com/bullpen-run/bullpen/internal/lifecycle"

// State is the state of a pool.
type State uint8

// The states of a pool.
const (
	// Open: it takes tasks.
	Open State = iota
	// Draining: it takes no more tasks and finishes all that it has.
	Draining
	// Stopping: it finishes what runs; what waited has been failed.
	Stopping
	// Closing: what runs has been canceled.
	Closing
	// Closed: no worker is left, or only such that ignore their cancellation.
	Closed
)

// poolStates is the table of a pool's states and legal moves.
var poolStates = lifecycle.Table[State]{
	Name: "goroutine pool",
	States: map[State]string{
		Open: "open", Draining: "draining", Stopping: "stopping", Closing: "closing", Closed: "closed",
	},
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
func (s State) String() string { return poolStates.Word(s) }

// WorkerState is the state of a worker goroutine.
type WorkerState uint8

// The states of a worker.
const (
	// WorkerSearching: it looks for a task.
	WorkerSearching WorkerState = iota
	// WorkerBusy: it runs a task.
	WorkerBusy
	// WorkerParked: it waits to be woken.
	WorkerParked
	// WorkerLost: its task has overrun and was answered; the body still runs.
	// Another worker has its place.
	WorkerLost
	// WorkerGone: its goroutine has ended.
	WorkerGone
)

// workerStates is the table of a worker's states and legal moves.
var workerStates = lifecycle.Table[WorkerState]{
	Name: "goroutine worker",
	States: map[WorkerState]string{
		WorkerSearching: "searching", WorkerBusy: "busy", WorkerParked: "parked", WorkerLost: "lost", WorkerGone: "gone",
	},
	Moves: map[WorkerState][]WorkerState{
		WorkerSearching: {WorkerBusy, WorkerParked, WorkerGone},
		WorkerBusy:      {WorkerSearching, WorkerParked, WorkerLost, WorkerGone},
		WorkerParked:    {WorkerSearching, WorkerGone},
		WorkerLost:      {WorkerGone},
		WorkerGone:      {},
	},
}

// String returns the word for s.
func (s WorkerState) String() string { return workerStates.Word(s) }

// TaskState is the state of a task with a result: what stands in the low bits
// of its state word.
type TaskState uint8

// The states of a task.
const (
	// TaskFree: the object is in nobody's hands, or just being filled.
	TaskFree TaskState = iota
	// TaskQueued: accepted, waits for a worker.
	TaskQueued
	// TaskRunning: its body runs.
	TaskRunning
	// TaskEnding: it never started; whoever moved it here writes why.
	TaskEnding
	// TaskDone: it has its one outcome.
	TaskDone
	// TaskLost: it was answered although its body runs on. That is its one
	// outcome; what the body returns is dropped.
	TaskLost
	// TaskTaken: its one holder reads the outcome and gives the object back.
	TaskTaken
)

// taskStates is the table of a task's states and legal moves. A task object
// is used again after TaskFree, under a new generation number, so that a handle
// to the earlier task reaches nothing of the later one.
var taskStates = lifecycle.Table[TaskState]{
	Name: "goroutine task",
	States: map[TaskState]string{
		TaskFree: "free", TaskQueued: "queued", TaskRunning: "running", TaskEnding: "ending", TaskDone: "done",
		TaskLost: "lost", TaskTaken: "taken",
	},
	Moves: map[TaskState][]TaskState{
		TaskFree:    {TaskQueued},
		TaskQueued:  {TaskRunning, TaskEnding, TaskFree},
		TaskRunning: {TaskDone, TaskLost},
		TaskEnding:  {TaskDone},
		TaskDone:    {TaskTaken},
		TaskLost:    {},
		TaskTaken:   {TaskQueued, TaskFree},
	},
}

// String returns the word for s.
func (s TaskState) String() string { return taskStates.Word(s) }
