package pool

import "github.com/bullpen-run/bullpen/internal/lifecycle"

// State is the state of a pool.
type State uint8

// The states of a pool.
const (
	// Open: the pool accepts tasks.
	Open State = iota
	// Draining: the pool accepts no more tasks and finishes all those accepted.
	Draining
	// Stopping: running tasks are finished; waiting tasks have been failed.
	Stopping
	// Closing: running tasks have been canceled.
	Closing
	// Closed: no workers are left, except those whose tasks ignore their cancellation.
	Closed
)

// poolStates lists a pool's states and the allowed transitions.
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

// PoolStates returns the states of a pool, in the order in which they may occur.
func PoolStates() []State { return []State{Open, Draining, Stopping, Closing, Closed} }

// String returns the name of s.
func (s State) String() string { return poolStates.Word(s) }

// WorkerState is the state of a worker goroutine.
type WorkerState uint8

// The states of a worker.
const (
	// WorkerSearching: the worker looks for a task.
	WorkerSearching WorkerState = iota
	// WorkerBusy: the worker runs a task.
	WorkerBusy
	// WorkerParked: the worker waits to be woken.
	WorkerParked
	// WorkerLost: the task has overrun and was answered, but its body keeps running. Another
	// worker has replaced this one.
	WorkerLost
	// WorkerGone: the goroutine has ended.
	WorkerGone
)

// workerStates lists a worker's states and the allowed transitions.
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

// String returns the name of s.
func (s WorkerState) String() string { return workerStates.Word(s) }

// TaskState is the state of a task with a result. It is stored in the low bits of the state
// word.
type TaskState uint8

// The states of a task.
const (
	// TaskFree: the object is unused, or being filled.
	TaskFree TaskState = iota
	// TaskQueued: the task was accepted and waits for a worker.
	TaskQueued
	// TaskRunning: the body runs.
	TaskRunning
	// TaskEnding: the task never started; the goroutine that set this state writes the
	// reason.
	TaskEnding
	// TaskDone: the task has its outcome.
	TaskDone
	// TaskLost: the task was answered while its body keeps running. That is its outcome; the
	// result of the body is dropped.
	TaskLost
	// TaskTaken: the only holder reads the outcome and releases the object.
	TaskTaken
)

// taskStates lists a task's states and the allowed transitions. After TaskFree, a task
// object is reused under a new generation number, so a handle to the earlier task cannot
// affect the later one.
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

// String returns the name of s.
func (s TaskState) String() string { return taskStates.Word(s) }
