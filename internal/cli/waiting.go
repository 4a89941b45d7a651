package cli

import (
	"context"
	"errors"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// forever is a wait without a limit.
const forever = time.Duration(math.MaxInt64)

// waitFlag is the flag --wait, whose optional time must follow an equals sign.
type waitFlag struct {
	limit time.Duration // 0 does not wait
	plain bool          // given without a time
}

func (w *waitFlag) define(f flagSet, usage string) {
	add(f, &w.limit, "wait", "w", "TIME", "", w.parse, usage+"; write a time as --wait=30s")
}

// optional makes the value of the flag optional.
func (w *waitFlag) optional(cmd *cobra.Command) { cmd.Flags().Lookup("wait").NoOptDefVal = "forever" }

func (w *waitFlag) parse(text string) (time.Duration, error) {
	if text == "forever" {
		w.plain = true
		return forever, nil
	}
	w.plain = false
	return positive(text)
}

// await waits up to limit for the end of a job, and passes its result to show. If the
// wait ends first, the job continues.
func (r *remote) await(ctx context.Context, id string, limit time.Duration, show func(bullpen.Result) error) error {
	return r.awaitBy(ctx, (*client.Client).Wait, id, limit, show)
}

// awaitBy is await with another function to wait.
func (r *remote) awaitBy(ctx context.Context, wait func(*client.Client, context.Context, string) (bullpen.Result, error), id string, limit time.Duration, show func(bullpen.Result) error) error {
	c, err := r.patient()
	if err != nil {
		return err
	}
	defer c.Close()
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if limit != forever {
		waiting, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	result, err := wait(c, waiting, id)
	end, ended := errors.AsType[*job.EndError](err)
	switch {
	case err == nil:
		return show(result)
	case ended:
		return r.badEnd(ctx, c, id, end)
	case ctx.Err() != nil:
		r.say("interrupted; the job continues. Its result: bullpen get %s --wait --result; to stop it: bullpen cancel %s", id, id)
		return status(exitInterrupted)
	case waiting.Err() != nil:
		return r.stillGoing(ctx, c, id, limit)
	}
	return ofJob(id, err)
}

// lastOf returns the last job of a chain that has ended.
func lastOf(ctx context.Context, c *client.Client, id string) (string, error) {
	for {
		info, err := c.Get(ctx, id)
		if err != nil || info.Next == "" {
			return id, ofJob(id, err)
		}
		id = info.Next
	}
}

// badEnd reports a job that did not end well.
func (r *remote) badEnd(ctx context.Context, c *client.Client, id string, end *job.EndError) error {
	if !r.asJSON {
		return end
	}
	info, err := c.Get(ctx, id)
	if err != nil {
		return errors.Join(end, ofJob(id, err))
	}
	if err := r.object(info); err != nil {
		return err
	}
	return status(exitFailed)
}

// stillGoing reports a job that has not ended within the wait.
func (r *remote) stillGoing(ctx context.Context, c *client.Client, id string, limit time.Duration) error {
	info, err := c.Get(ctx, id)
	if err != nil {
		return ofJob(id, err)
	}
	if r.asJSON {
		if err := r.object(info); err != nil {
			return err
		}
	} else {
		r.say("the job is %s after %v, and continues. Its result: bullpen get %s --wait --result; to stop it: bullpen cancel %s", info.State, limit, id, id)
	}
	return status(exitNotEnded)
}

// result prints the result of a job: unchanged, but on a terminal only readable text;
// with --json as part of the job's object.
func (r *remote) result(ctx context.Context, c *client.Client, id string, result bullpen.Result) error {
	if !r.asJSON {
		return r.bytes(result.Payload, "the result", "bullpen get "+id+" --result > FILE")
	}
	info, err := c.Get(ctx, id)
	if err != nil {
		return ofJob(id, err)
	}
	return r.object(withResult(info, result.Payload))
}

// bytes prints untrusted bytes unchanged. On a terminal it prints them only if they
// cannot affect it; otherwise the error says how to get them.
func (r *remote) bytes(b []byte, what, how string) error {
	terminal := isTerminal(r.stdout)
	if terminal && !readable(b) {
		r.say("%s is %s of binary data, which a terminal does not show: %s", what, sizeText(int64(len(b))), how)
		return nil
	}
	if _, err := r.out.Write(b); err != nil {
		return err
	}
	if terminal && len(b) > 0 && b[len(b)-1] != '\n' {
		return r.out.WriteByte('\n')
	}
	return nil
}

// isFileTerminal reports whether f is a terminal on which the user types.
func isFileTerminal(from any) bool {
	f, ok := from.(*os.File)
	return ok && isTerminal(f)
}
