//go:build !unix

package executortest

import (
	"context"
	"errors"
	"time"

	"github.com/bullpen-run/bullpen"
)

// bombSize is how many processes a shell of bad-forks becomes where it is supported.
const bombSize = 1

// badSystemHandlers are the bad handlers that need signals and sessions, which this system
// does not have.
func badSystemHandlers() map[string]bullpen.Handler {
	all := map[string]bullpen.Handler{}
	for _, name := range []string{"bad-forks", "bad-descriptors", "bad-deaf", "bad-stop", "bad-escape"} {
		all[name] = func(context.Context, bullpen.Task) ([]byte, error) {
			return nil, errors.New("this system has no signals and no sessions")
		}
	}
	all["bad-crash"] = func(_ context.Context, t bullpen.Task) ([]byte, error) { return nil, die(string(t.Payload)) }
	return all
}

// processorTime returns 0: it is unknown on this system.
func processorTime() time.Duration { return 0 }
