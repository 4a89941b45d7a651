// Command client hands work to a Bullpen daemon: a job that is waited for, many
// jobs that are not, and tasks by an executor, as a pool of this process would run
// them. The daemon is that of $BULLPEN_URL, or of this machine, and has a pool
// "upper" such as
//
//	pools:
//	  upper: {command: tr a-z A-Z, protocol: exec, ephemeral: true}
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

func main() {
	if err := run(context.Background(), os.Stdout, os.Getenv("BULLPEN_URL")); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, url string) error {
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		return err
	}
	defer c.Close()

	// One job, stored before it runs, and waited for.
	_, result, err := c.Run(ctx, job.Job{Queue: "upper", Payload: []byte("durable")})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n", result.Payload)

	// Many jobs, which are looked at later. A key makes each of them one job,
	// however often this program runs.
	refs, err := c.EnqueueAll(ctx, []job.Job{
		{Queue: "upper", Payload: []byte("one"), Key: "example/1"},
		{Queue: "upper", Payload: []byte("two"), Key: "example/2"},
	})
	if err != nil {
		return err
	}
	for _, ref := range refs {
		result, err := c.Wait(ctx, ref.ID)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", result.Payload)
	}

	// Tasks that bypass the queue, through the interface of every pool.
	pool, err := c.Executor("upper", client.ExecutorConfig{})
	if err != nil {
		return err
	}
	words := []bullpen.Task{{Payload: []byte("three")}, {Payload: []byte("four")}}
	for _, ended := range bullpen.ExecuteAll(ctx, pool, words) {
		fmt.Fprintf(out, "%s %v\n", ended.Result.Payload, ended.Err)
	}
	return pool.Drain(ctx)
}
