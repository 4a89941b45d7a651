package processprom

import (
	"testing"

	"github.com/bullpen-run/bullpen/internal/metriclist"
)

func TestTheListIsComplete(t *testing.T) {
	t.Parallel()
	metriclist.Check(t, "collector.go", &Collector{})
}
