package pool

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write docs/pool-states.md from the tables")

// TestStatesDocument keeps docs/pool-states.md equal to the tables in the code.
func TestStatesDocument(t *testing.T) {
	for name, err := range map[string]error{
		"pool": poolStates.Check(Open), "worker": workerStates.Check(WorkerSearching), "task": taskStates.Check(TaskFree),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := "# States of a goroutine pool\n\n" +
		"Printed from the tables in package pool by its tests (`go test ./pool -run States -update`).\n" +
		"A move that is not listed is refused.\n\n" +
		"## Goroutine pool\n\n" + poolStates.Markdown() +
		"\n## Goroutine worker\n\nA lost worker has no place in the pool any more: its task was answered, and the body goes on.\n\n" +
		workerStates.Markdown() +
		"\n## Task with a result\n\nA task object is used again after it was taken, under a new number, so that nobody who holds the\n" +
		"earlier task reaches the later one. `lost` has no way back: an object whose body goes on is never used again.\n\n" +
		taskStates.Markdown()
	file := filepath.Join("..", "docs", "pool-states.md")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/pool-states.md is not what the tables say; run go test ./pool -run States -update")
	}
}

// step is a move.
type step struct{ from, to TaskState }

// mover is one function that moves the word of a task.
type mover struct {
	name string
	move func(*testing.T, *job[uint64, uint64])
	// only has the states in which it is called; nil says in any.
	only []TaskState
	// moves has what it makes of a state; all others it leaves alone.
	moves []step
	// queued says that the queue holds the task.
	queued bool
}

// gen is the generation of the task that movers meet.
const gen = 7

// movers are all functions that move a task: those of who brings it and who takes
// it from its queue, and those of its end.
func movers() []mover { return append(queueMovers(), endMovers()...) }

func queueMovers() []mover {
	return []mover{
		{
			name: "submitted", move: func(_ *testing.T, j *job[uint64, uint64]) { j.submitted() },
			only:  []TaskState{TaskFree, TaskTaken},
			moves: []step{{TaskFree, TaskQueued}, {TaskTaken, TaskQueued}},
		},
		{
			name: "withdrawn", move: func(_ *testing.T, j *job[uint64, uint64]) { j.withdrawn() },
			only: []TaskState{TaskQueued}, moves: []step{{TaskQueued, TaskFree}}, queued: true,
		},
		{
			name: "begin", move: func(_ *testing.T, j *job[uint64, uint64]) { j.begin() },
			moves: []step{{TaskQueued, TaskRunning}}, queued: true,
		},
		{
			name: "letGo", move: func(_ *testing.T, j *job[uint64, uint64]) { j.letGo() }, queued: true,
		},
		{
			name: "revoke", move: func(_ *testing.T, j *job[uint64, uint64]) { j.revoke(gen, errNo) },
			moves: []step{{TaskQueued, TaskDone}}, queued: true, // by way of ending
		},
		{
			name: "dropped", move: func(_ *testing.T, j *job[uint64, uint64]) { j.dropped(errNo) },
			moves: []step{{TaskQueued, TaskDone}}, queued: true,
		},
		{
			name: "help's step", move: func(_ *testing.T, j *job[uint64, uint64]) { j.step(gen, TaskQueued, TaskRunning, 0) },
			moves: []step{{TaskQueued, TaskRunning}}, queued: true,
		},
	}
}

func endMovers() []mover {
	return []mover{
		{
			name: "publish of a body's end", move: func(_ *testing.T, j *job[uint64, uint64]) { j.publish(gen, TaskRunning) },
			moves: []step{{TaskRunning, TaskDone}},
		},
		{
			name: "publish of what never started", move: func(_ *testing.T, j *job[uint64, uint64]) { j.publish(gen, TaskEnding) },
			moves: []step{{TaskEnding, TaskDone}},
		},
		{
			name: "abandon", move: func(_ *testing.T, j *job[uint64, uint64]) { j.abandon(gen) },
			moves: []step{{TaskRunning, TaskLost}},
		},
		{
			name: "take", move: func(t *testing.T, j *job[uint64, uint64]) {
				t.Helper()
				if _, err := j.take(gen, false); err != nil && !errors.Is(err, errForsaken) {
					t.Error(err)
				}
			},
			only: []TaskState{TaskDone, TaskLost}, moves: []step{{TaskDone, TaskTaken}},
		},
		{
			name: "take of what the queue holds", move: func(t *testing.T, j *job[uint64, uint64]) {
				t.Helper()
				if _, err := j.take(gen, false); err != nil {
					t.Error(err)
				}
			},
			only: []TaskState{TaskDone}, moves: []step{{TaskDone, TaskFree}}, queued: true, // by way of taken
		},
		{
			name: "keep", move: func(_ *testing.T, j *job[uint64, uint64]) { j.keep(gen) },
		},
	}
}

// between says that a move is legal in two steps, and through which state.
var between = map[step]TaskState{
	{TaskQueued, TaskDone}: TaskEnding,
	{TaskDone, TaskFree}:   TaskTaken,
}

// TestTaskMoves has every function that moves a task meet it in every state: it
// makes the moves that are its own, all of them are in the table, and all of the
// table are made by somebody.
func TestTaskMoves(t *testing.T) {
	t.Parallel()
	p := open(t, Config{})
	made := map[step]bool{}
	for _, m := range movers() {
		for from := range taskStates.States {
			if m.only != nil && !slices.Contains(m.only, from) {
				continue
			}
			to := from
			for _, s := range m.moves {
				if s.from == from {
					to = s.to
				}
			}
			if got := moved(t, p, &m, from); got != to {
				t.Errorf("%s makes %v of a task that is %v, want %v", m.name, got, from, to)
			}
			path := []TaskState{from, to}
			if via, ok := between[step{from, to}]; ok {
				path = []TaskState{from, via, to}
			}
			for i := range path[1:] {
				if path[i] != path[i+1] {
					made[step{path[i], path[i+1]}] = true
				}
			}
		}
	}
	for move := range made {
		if !slices.Contains(taskStates.Moves[move.from], move.to) {
			t.Errorf("the code moves a task from %v to %v, which the table forbids", move.from, move.to)
		}
	}
	for from, row := range taskStates.Moves {
		for _, to := range row {
			if !made[step{from, to}] {
				t.Errorf("nobody moves a task from %v to %v, which the table lists", from, to)
			}
		}
	}
}

// moved is the state of a task after m was called in state from.
func moved(t *testing.T, p *Pool, m *mover, from TaskState) TaskState {
	t.Helper()
	j := heldBy(p)
	word := gen*generation | uint64(from)
	if m.queued {
		word |= inQueue
	}
	if from == TaskLost {
		word |= isKept // as abandon leaves it
	}
	j.word.Store(word)
	m.move(t, j)
	return stateOf(j.word.Load())
}

// heldBy is a task in a queue that only the test knows.
func heldBy(p *Pool) *job[uint64, uint64] {
	f := NewFunc(p, fact)
	j := &job[uint64, uint64]{fn: f.fn, home: f}
	j.self, j.target, j.queue = j, f.target, &queue{pool: p, admission: &admission{pool: p, bound: 8}}
	return j
}

// TestGenerationsTellTasksApart has the functions that go by a handle meet an
// object that serves a later task: they leave it alone.
func TestGenerationsTellTasksApart(t *testing.T) {
	t.Parallel()
	p := open(t, Config{})
	for _, m := range movers() {
		if m.only != nil || m.name == "begin" || m.name == "letGo" || m.name == "dropped" {
			continue // these are called by who holds the task
		}
		for from := range taskStates.States {
			j := heldBy(p)
			before := (gen+1)*generation | uint64(from) // the handle is to the task before
			j.word.Store(before)
			m.move(t, j)
			if after := j.word.Load(); after != before {
				t.Errorf("%s by a handle to an earlier task makes %v of one that is %v", m.name, stateOf(after), from)
			}
		}
	}
}

// TestAnEmptyQueueHasNothingWaiting has the moment between the burial of a stale
// item and its forget: a pool that ends then would wait for ever if it counted.
func TestAnEmptyQueueHasNothingWaiting(t *testing.T) {
	t.Parallel()
	q := &queue{admission: &admission{}}
	q.admission.queues = []*queue{q}
	q.admission.dead.Store(-1)
	if n := q.admission.count(); n != 0 {
		t.Errorf("%d tasks wait in an empty queue", n)
	}
	q.in.levels[Normal].push(closure(func() {}), 0)
	for dead, want := range map[int64]int{-1: 1, 0: 1, 1: 0, 2: 0} {
		q.admission.dead.Store(dead)
		if n := q.admission.count(); n != want {
			t.Errorf("of one item, with %d stale, %d wait, want %d", dead, n, want)
		}
	}
}
