package embedded_test

import (
	"testing"

	"github.com/bullpen-run/bullpen/internal/leak"
)

// TestMain makes the test binary its own node and its own worker: see role.
func TestMain(m *testing.M) {
	if role() {
		return
	}
	leak.Main(m)
}
