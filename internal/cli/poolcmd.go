package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/client"
)

// newPool returns bullpen pool and its commands. each returns a new remote for one
// command.
func newPool(each func() *remote) *cobra.Command {
	group := groupOf("pool", "Show and manage the pools of a daemon", "pools")
	group.AddCommand(newPoolLs(each()), newPoolShow(each()), newPoolScale(each()), newPoolReload(each()))
	group.AddCommand(
		poolVerb(each(), "pause", "Stop running a pool's jobs, on all nodes",
			"Pause stops the start of jobs of the pool, on all nodes, and also after a restart of\n"+
				"the daemon. Running jobs continue, and new jobs are still accepted.",
			func(ctx context.Context, c *client.Client, name string) (client.Pool, error) {
				return c.Pause(ctx, name)
			}),
		poolVerb(each(), "resume", "Run a pool's jobs again",
			"Resume lets the jobs of a paused pool start again.",
			func(ctx context.Context, c *client.Client, name string) (client.Pool, error) {
				return c.Resume(ctx, name)
			}),
	)
	return group
}

// groupOf returns a command that only has subcommands.
func groupOf(name, short, things string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Aliases: []string{things}, SuggestFor: []string{things},
		Args: onlyCommands,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
}

// onlyCommands returns an error for an argument that is not a subcommand, with the
// one that was probably meant.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	text := fmt.Sprintf("unknown command %q of %q", args[0], cmd.CommandPath())
	if near := nearest(args[0], names); near != "" {
		text += fmt.Sprintf("; did you mean: %s %s", cmd.CommandPath(), near)
	}
	return errors.New(text)
}

// raw prints JSON of the daemon on one line.
func (r *remote) raw(text json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		return fmt.Errorf("the daemon's answer is not JSON: %w", err)
	}
	b.WriteByte('\n')
	_, err := r.out.Write(b.Bytes())
	return err
}

func (r *remote) showPool(p *client.Pool) error {
	if r.asJSON {
		return r.raw(p.Raw)
	}
	r.printf("%s", poolText(p, r.now(), r.style))
	return nil
}

func newPoolLs(r *remote) *cobra.Command {
	return r.command(verb{
		use: "ls", short: "List the pools",
		long: "Ls lists the pools with their workers (busy, up and allowed), the waiting and\n" +
			"running jobs, the age of the oldest, and how many tasks ended well and badly since the\n" +
			"daemon started. A pool marked queue-only has no workers in this daemon: other daemons\n" +
			"run its jobs.",
		args: wants(0, 0, "bullpen pool ls"),
		do: func(ctx context.Context, c *client.Client, _ []string) error {
			pools, err := c.Pools(ctx)
			if err != nil {
				return err
			}
			if r.asJSON {
				for i := range pools {
					if err := r.raw(pools[i].Raw); err != nil {
						return err
					}
				}
				return nil
			}
			if len(pools) == 0 {
				r.say("the daemon has no pools: add some to its configuration; see: bullpen serve --help")
				return nil
			}
			r.printf("%s", poolTable(pools, r.now()).draw(r.style))
			return nil
		},
	})
}

func newPoolShow(r *remote) *cobra.Command {
	return r.command(verb{
		use: "show POOL", short: "Show a pool", long: "Show prints everything about a pool.",
		args: wants(1, 1, "bullpen pool show POOL; see: bullpen pool ls"), complete: r.completePool,
		do: func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.Pool(ctx, args[0])
			if err != nil {
				return ofPool(args[0], err)
			}
			return r.showPool(&p)
		},
	})
}

func newPoolScale(r *remote) *cobra.Command {
	least, most := -1, -1
	return r.command(verb{
		use: "scale POOL [--min N] [--max N]", short: "Change how many workers a pool has",
		long: "Scale changes the minimum and the maximum number of workers of a pool, until the daemon\n" +
			"reloads its configuration.",
		args: func(cmd *cobra.Command, args []string) error {
			if err := wants(1, 1, "bullpen pool scale POOL --min N --max N; see: bullpen pool ls")(cmd, args); err != nil {
				return err
			}
			if least < 0 && most < 0 && len(r.bad) == 0 {
				return errors.New("nothing to change: give --min N, --max N, or both")
			}
			return nil
		},
		complete: r.completePool,
		flags: func(f flagSet) {
			add(f, &least, "min", "", "N", "", number(0, math.MaxInt32), "minimum number of workers, started at once and kept")
			add(f, &most, "max", "j", "N", "", number(1, math.MaxInt32), "maximum number of workers")
		},
		do: func(ctx context.Context, c *client.Client, args []string) error {
			var s client.Scale
			if least >= 0 {
				s.Min = &least
			}
			if most >= 0 {
				s.Max = &most
			}
			p, err := c.Scale(ctx, args[0], s)
			if err != nil {
				return ofPool(args[0], err)
			}
			if r.asJSON {
				return r.raw(p.Raw)
			}
			r.printf("%s: from %d to %s\n", plain(p.Name), p.Min, plural(p.Max, "worker"))
			return nil
		},
	})
}

func newPoolReload(r *remote) *cobra.Command {
	return r.command(verb{
		use: "reload POOL", short: "Replace the workers of a pool",
		long: "Reload starts new workers, and ends the old ones when the new ones are ready and the\n" +
			"running tasks are done. If the new workers do not start, the old ones stay.",
		args: wants(1, 1, "bullpen pool reload POOL; see: bullpen pool ls"), complete: r.completePool,
		do: func(ctx context.Context, c *client.Client, args []string) error {
			p, err := c.ReloadPool(ctx, args[0])
			if err != nil {
				return ofPool(args[0], err)
			}
			if r.asJSON {
				return r.raw(p.Raw)
			}
			r.printf("%s: reloaded, %s up\n", plain(p.Name), plural(p.Workers.Busy+p.Workers.Idle+p.Workers.Starting, "worker"))
			return nil
		},
	})
}

// poolVerb returns a command that does one thing to a pool.
func poolVerb(r *remote, name, short, long string, do func(ctx context.Context, c *client.Client, pool string) (client.Pool, error)) *cobra.Command {
	return r.command(verb{
		use: name + " POOL", short: short, long: long,
		args: wants(1, 1, "bullpen pool "+name+" POOL; see: bullpen pool ls"), complete: r.completePool,
		do: func(ctx context.Context, c *client.Client, args []string) error {
			p, err := do(ctx, c, args[0])
			if err != nil {
				return ofPool(args[0], err)
			}
			if r.asJSON {
				return r.raw(p.Raw)
			}
			r.printf("%s: %s\n", plain(p.Name), poolState(&p).text)
			return nil
		},
	})
}
