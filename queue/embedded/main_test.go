package embedded_test

import (
	"os"
	"testing"

	"github.com/bullpen-run/bullpen/internal/leak"
)

// TestMain makes the test binary its own node and its own worker: see role.
func TestMain(m *testing.M) {
	if role() {
		return
	}
	if os.Getenv(lossVar) != "" {
		os.Exit(m.Run())
	}
	leak.Main(m)
}

// lossVar is in the environment of a process in which a store may fail: see mayFail.
const lossVar = "BULLPEN_TEST_LOSS"
