package schedule

import (
	"testing"
	_ "time/tzdata" // the zones, also where the machine has none

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
