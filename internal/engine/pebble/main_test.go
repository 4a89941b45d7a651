package pebble

import (
	"flag"
	"testing"

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) {
	// Most of these tests wait for the end of a lease.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	leak.Main(m)
}
