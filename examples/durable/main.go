// Command durable puts jobs into a durable queue in a folder and works them off
// with worker processes. Kill it at any moment and start it again: what was
// confirmed is done in the end.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
	"github.com/bullpen-run/bullpen/process"
	"github.com/bullpen-run/bullpen/queue"
	"github.com/bullpen-run/bullpen/queue/embedded"
	"github.com/bullpen-run/bullpen/worker"
)

func main() {
	if worker.Serving() { // this program is its own worker; it could be a Python script as well
		worker.Main(worker.Config{Handlers: map[string]bullpen.Handler{"send": send}})
		return
	}
	if err := run(context.Background(), "jobs"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	q, err := queue.Open(ctx, queue.Config{Store: embedded.At(dir)})
	if err != nil {
		return err
	}
	defer q.Close() //nolint:errcheck // nothing is left to be done
	pool, err := process.New(process.Config{Command: []string{os.Args[0], dir}, Max: 2})
	if err != nil {
		return err
	}
	defer pool.Close() //nolint:errcheck // nothing is left to be done
	working, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	go func() { worked <- q.Work(working, pool, queue.WorkConfig{Queue: "mail"}) }()

	mail := job.Job{Queue: "mail", Name: "send", Payload: []byte("invoice 17"), Key: "invoice-17"}
	first, err := q.Enqueue(ctx, mail) // from here on it survives a loss of power
	if err != nil {
		return err
	}
	again, err := q.Enqueue(ctx, mail) // the same key: the same job
	if err != nil {
		return err
	}
	fmt.Println(again.Existing, again.ID == first.ID)
	result, err := q.Wait(ctx, first.ID)
	fmt.Println(string(result.Payload), err)
	stop()
	return <-worked
}

// send may run twice for one job, as every handler of a durable queue. So it
// leaves a mark under the job's id when it has done its work, and looks for it
// first.
func send(_ context.Context, t bullpen.Task) ([]byte, error) {
	mark := os.Args[1] + "-sent-" + t.ID
	if _, err := os.Stat(mark); err == nil {
		return []byte("sent before"), nil
	}
	fmt.Printf("attempt %d: sending %s\n", queue.AttemptOf(t).Attempt, t.Payload)
	return []byte("sent"), os.WriteFile(mark, nil, 0o600)
}
