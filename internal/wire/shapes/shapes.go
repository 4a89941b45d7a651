// Package shapes forms the input of a call that several tasks share, and splits its answer
// into theirs.
//
// The work is in two steps, so that little is left to do under a lock: each task makes its
// own item when it is submitted, and a call puts items together.
package shapes

import (
	"crypto/rand"
	"errors"

	"github.com/bullpen-run/bullpen/internal/wire"
)

// Shape is the form of the input and the answer of shared calls.
type Shape interface {
	// Item returns the part of the input for one task, or why the task cannot have one.
	Item(t Task) ([]byte, error)
	// Join returns the input for items, which belong to the tasks with these IDs, and the
	// IDs by which the worker knows them.
	Join(items [][]byte, ids []string) (input []byte, known []string)
	// Split returns what the answer means for each task, in the order of Join. An error
	// means that all have failed.
	Split(answer []byte, known []string) ([]Reply, error)
}

// Task is what a shape needs to know of a task.
type Task struct {
	Payload []byte
	Meta    map[string]string
	// Attempt is the number of the attempt, as text; empty means the first.
	Attempt string
}

// Reply is what an answer means for one task.
type Reply struct {
	Result []byte
	// Failure is nil if the task ended well.
	Failure *wire.Failure
	// Final reports that another attempt would not help.
	Final bool
}

// Size returns an upper bound of what an item adds to an input, for a task with that ID. An
// SQS event has the ID twice, and each of its bytes may become six.
func Size(item []byte, id string) int { return len(item) + 12*len(id) + 128 }

// unique returns ids with those replaced that are empty or appear a second time.
func unique(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	known := make([]string, len(ids))
	for i, id := range ids {
		if id == "" || seen[id] {
			id = rand.Text()
		}
		seen[id] = true
		known[i] = id
	}
	return known
}

// errMalformed is the beginning of errors about answers.
var errMalformed = errors.New("the answer of the call cannot be used")
