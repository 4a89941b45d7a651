package broker

import (
	"os"
	"testing"

	"github.com/bullpen-run/bullpen/internal/leak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		os.Exit(victim(dir)) // this process is the one that TestKilled kills
	}
	leak.Main(m)
}
