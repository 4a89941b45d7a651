// Untrusted runs Python code that nobody has read: forked from a process
// that has loaded what the code may import, in the strict sandbox, with bounds of
// memory, processes, processor time and run time.
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
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	pool, err := process.New(process.Config{
		Command: []string{"python3", "judge.py"},
		Preload: []string{"decimal", "json"}, // imported once; workers are forked
		Spare:   1,                           // one is always ready
		Env:     []string{"PYTHONPATH"},
		Limits:  bullpen.Limits{Memory: 64 << 20, CPU: 0.5, Timeout: 10 * time.Second},
		PIDs:    16,
		Sandbox: process.Sandbox{Profile: process.ProfileStrict},
	})
	if err != nil {
		return err // it says what this system cannot keep
	}
	for _, code := range []string{
		"str(decimal.Decimal(1) / 7)",
		"open('/root/.bashrc').read()",
		"__import__('socket').create_connection(('192.0.2.1', 80))",
		"[0] * 10**9",
		"max(iter(int, 1))",
	} {
		res, err := pool.Execute(ctx, bullpen.Task{Name: "judge", Payload: []byte(code)})
		var te *bullpen.TaskError
		switch {
		case errors.As(err, &te):
			fmt.Println(te.Outcome, te.Type)
		case err != nil:
			return err
		default:
			fmt.Println(string(res.Payload))
		}
	}
	return pool.Drain(ctx)
}
