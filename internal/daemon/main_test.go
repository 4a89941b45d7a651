package daemon

import (
	"fmt"
	"os"
	"testing"

	"github.com/bullpen-run/bullpen/internal/leak"
	"github.com/bullpen-run/bullpen/worker"
)

// TestMain makes the test binary its own worker.
func TestMain(m *testing.M) {
	if worker.Serving() {
		worker.Main(worker.Config{Handlers: handlers()})
		return
	}
	os.Exit(run(m))
}

// leftovers are folders that tests share; they are removed after the last one. A
// OnceValue writes them, and the end of all tests comes after it.
var leftovers []string

// run runs the tests, and fails when they leave something behind.
func run(m *testing.M) int {
	before := leak.Snapshot()
	code := m.Run()
	for _, folder := range leftovers {
		_ = os.RemoveAll(folder)
	}
	if code == 0 {
		if err := before.Compare(); err != nil {
			fmt.Fprintf(os.Stderr, "The tests passed and left this behind:\n%v\n", err)
			code = 1
		}
	}
	return code
}
