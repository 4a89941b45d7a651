// Goworker is a worker in Go: a program that runs the tasks which a Bullpen host
// hands to it. Start it with
//
//	bullpen map --protocol frames --task hash -- goworker
//
// Its tasks are hash (base64 of the SHA-512 of the payload), null (nothing), echo
// (the payload) and sleep (as long as the payload says, such as 250ms).
package main

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/worker"
)

func main() {
	worker.Main(worker.Config{Handlers: map[string]bullpen.Handler{
		"hash": hash, "null": null, "echo": echo, "sleep": sleep,
	}})
}

func hash(_ context.Context, t bullpen.Task) ([]byte, error) {
	sum := sha512.Sum512(t.Payload)
	return base64.StdEncoding.AppendEncode(nil, sum[:]), nil
}

func null(context.Context, bullpen.Task) ([]byte, error) { return nil, nil }

// echo returns its payload, which costs no copy of its own.
func echo(_ context.Context, t bullpen.Task) ([]byte, error) { return t.Payload, nil }

// sleep shows how a handler heeds its context.
func sleep(ctx context.Context, t bullpen.Task) ([]byte, error) {
	d, err := time.ParseDuration(string(t.Payload))
	if err != nil {
		return nil, bullpen.Fail(fmt.Sprintf("the payload is no duration (%v): use one such as 250ms", err), false)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
