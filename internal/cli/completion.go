package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// completionTime bounds how long completion may delay the shell.
const completionTime = 500 * time.Millisecond

// completed asks the daemon for words that begin with prefix. If the daemon does not
// answer there are none.
func (r *remote) completed(cmd *cobra.Command, prefix string, ask func(ctx context.Context, c *client.Client) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	c, err := r.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	words, err := ask(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words = slices.DeleteFunc(words, func(w string) bool {
		name, _, _ := strings.Cut(w, "\t")
		return !strings.HasPrefix(name, prefix) || plain(name) != name
	})
	return words, cobra.ShellCompDirectiveNoFileComp
}

// completePool completes the name of a pool, as the first argument or the value of a
// flag.
func (r *remote) completePool(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && cmd.Name() != "ls" && cmd.Parent().Name() != "dead" {
		if cmd.Name() == "submit" && len(args) == 1 && strings.HasPrefix(prefix, "@") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return r.completed(cmd, prefix, func(ctx context.Context, c *client.Client) ([]string, error) {
		pools, err := c.Pools(ctx)
		names := make([]string, len(pools))
		for i := range pools {
			names[i] = pools[i].Name + "\t" + poolState(&pools[i]).text
		}
		return names, err
	})
}

// completeJob completes the id of a job in one of some states, or of any.
func (r *remote) completeJob(states ...job.State) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return r.completed(cmd, prefix, func(ctx context.Context, c *client.Client) ([]string, error) {
			f := job.Filter{Limit: 100}
			list := c.List
			if slices.Equal(states, []job.State{job.Dead}) {
				list = c.ListDead
			}
			page, err := list(ctx, f)
			var ids []string
			for i := range page.Jobs {
				j := &page.Jobs[i]
				if len(states) > 0 && !slices.Contains(states, j.State) || slices.Contains(args, j.ID) {
					continue
				}
				ids = append(ids, j.ID+"\t"+plain(strings.Join(strings.Fields(j.Queue+" "+j.Name+" "+j.State.String()), " ")))
			}
			return ids, err
		})
	}
}
