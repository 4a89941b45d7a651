// Quickstart runs tasks in a pool of Python workers and deals with every way in
// which they end.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/process"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pool, err := process.New(process.Config{
		Command: []string{"python3", "worker.py"},
		Max:     4, // starts with the first task, grows while tasks wait
		Env:     []string{"PYTHONPATH"},
		Limits:  bullpen.Limits{Timeout: 2 * time.Second},
	})
	if err != nil {
		return err
	}
	for _, word := range []string{"hello", "", "sleep", "crash"} {
		res, err := pool.Execute(ctx, bullpen.Task{Name: "shout", Payload: []byte(word)})
		var te *bullpen.TaskError
		switch {
		case errors.As(err, &te): // it ran, and this is how it ended
			fmt.Printf("%q: %v\n", word, te.Outcome)
		case err != nil: // it never started: it may be given elsewhere
			return err
		default:
			fmt.Printf("%q: %s\n", word, res.Payload)
		}
	}
	fmt.Fprintln(os.Stderr, "workers started:", pool.Stats().Started)
	return pool.Drain(ctx) // finish what was accepted, leave nothing behind
}
