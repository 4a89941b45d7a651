package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/client"
)

func newCancel(r *remote) *cobra.Command {
	return r.command(verb{
		use: "cancel ID...", short: "Take jobs back, whether they wait or run",
		long:     "Cancel takes jobs back. One that waits never starts; one that runs is asked to end,\nand its worker is killed if it does not. One that has ended is left as it is, which\nis told, and the exit status is 1.",
		example:  "  bullpen ls --pool reports --state queued --all --json | jq -r .id | xargs bullpen cancel",
		args:     wants(1, mostArguments, "bullpen cancel ID...; see: bullpen ls"),
		complete: r.completeJob("live"),
		do: func(ctx context.Context, c *client.Client, args []string) error {
			return r.eachID(ctx, c, args, func(id string) error {
				info, err := c.Cancel(ctx, id)
				if err != nil {
					return err
				}
				if r.asJSON {
					return r.raw(info.Raw)
				}
				r.printf("%s %s\n", plain(id), info.State)
				return nil
			})
		},
	})
}

func newRetry(r *remote) *cobra.Command {
	return r.command(verb{
		use: "retry ID...", short: "Try dead jobs again, as new jobs",
		long:     "Retry tries jobs again that have failed for good: each becomes a new job with the same\npayload, whose id is printed. Many at once: bullpen dead retry.",
		args:     wants(1, mostArguments, "bullpen retry ID...; see: bullpen dead ls"),
		complete: r.completeJob(string(client.Dead)),
		do: func(ctx context.Context, c *client.Client, args []string) error {
			return r.eachID(ctx, c, args, func(id string) error { return r.again(id, func() (client.Ref, error) { return c.Retry(ctx, id) }) })
		},
	})
}

// mostArguments bounds no command line: the system does.
const mostArguments = 1 << 30

// again tries a dead job again and prints the id of the new one.
func (r *remote) again(id string, retry func() (client.Ref, error)) error {
	ref, err := retry()
	if err != nil {
		return err
	}
	if r.asJSON {
		return r.object(struct {
			client.Ref
			Parent string `json:"parent"`
		}{ref, id})
	}
	r.printf("%s\n", ref.ID)
	return nil
}

// eachID does something to each of some jobs. What goes wrong with one is told and
// stops the others only where they cannot fare better; the exit status is that
// of the first.
func (r *remote) eachID(ctx context.Context, c *client.Client, ids []string, do func(id string) error) error {
	code := exitOK
	for _, id := range ids {
		err := do(id)
		if err == nil {
			err = r.flush() // what has been done is told, whatever becomes of the next
			if err != nil {
				return err
			}
			continue
		}
		about := ofJob(id, err)
		if len(ids) == 1 || ctx.Err() != nil || hopeless(err) {
			return about
		}
		is, text := r.explain(ctx, c, about)
		r.say("%s: %s", plain(id), text)
		if code == exitOK {
			code = is
		}
	}
	if code != exitOK {
		return status(code)
	}
	return nil
}

// hopeless tells whether a call to the same daemon would fail in the same way.
func hopeless(err error) bool {
	for _, is := range []error{client.ErrUnreachable, client.ErrUnauthorized, client.ErrForbidden, client.ErrAnswer} {
		if errors.Is(err, is) {
			return true
		}
	}
	_, isAnswer := errors.AsType[*client.Error](err)
	return !isAnswer
}
