package pool_test

import (
	"testing"

	"github.com/bullpen-run/bullpen/executortest"
)

// TestNeighbours is not parallel, as the suite demands. Most of it is skipped:
// goroutines share everything with the rest of the program.
func TestNeighbours(t *testing.T) {
	executortest.Neighbours(t, executortest.Factory{New: newForSuite})
}
