// Package tasks has the handlers of the example levels, which run at each isolation level.
package tasks

import (
	"bytes"
	"context"
	"fmt"

	"github.com/bullpen-run/bullpen"
)

// Handlers returns the handlers by task name.
func Handlers() map[string]bullpen.Handler {
	return map[string]bullpen.Handler{"words": words}
}

// words counts the lines, words and bytes of the payload.
func words(_ context.Context, t bullpen.Task) ([]byte, error) {
	if len(t.Payload) == 0 {
		return nil, bullpen.Fail("there is no text", false)
	}
	n := fmt.Sprintf("%d %d %d", bytes.Count(t.Payload, []byte("\n")), len(bytes.Fields(t.Payload)), len(t.Payload))
	return []byte(n), nil
}
