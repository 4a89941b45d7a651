package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/internal/units"
	"github.com/bullpen-run/bullpen/job"
)

// newGroup returns bullpen group and its commands. each returns a new remote for one
// command.
func newGroup(each func() *remote) *cobra.Command {
	group := groupOf("group", "Show the groups of a pool's jobs and set their limits", "groups")
	group.AddCommand(newGroupLs(each()), newGroupSet(each()), newGroupReset(each()))
	return group
}

func newGroupLs(r *remote) *cobra.Command {
	return r.command(verb{
		use: "ls POOL", short: "List the groups of a pool that have jobs or their own limits",
		long: "Ls lists the groups of a pool that have waiting or running jobs, or their own limits,\n" +
			"with the age of the oldest waiting job. The groups take turns, however many jobs each\n" +
			"has waiting. The first line shows the limits of all groups without their own.",
		args: wants(1, 1, "bullpen group ls POOL; see: bullpen pool ls"), complete: r.completePool,
		do: func(ctx context.Context, c *client.Client, args []string) error {
			g, err := c.Groups(ctx, args[0])
			if err != nil {
				return ofPool(args[0], err)
			}
			return r.showGroups(&g)
		},
	})
}

// showGroups writes groups as a table.
func (r *remote) showGroups(g *client.Groups) error {
	if r.asJSON {
		return r.object(g)
	}
	t := newTable("GROUP", ">WAITING", ">RUNNING", ">OLDEST", "LIMITS")
	t.add("(all others)", "", "", "", limitsText(g.Limits))
	now := r.now()
	for i := range g.Groups {
		one := &g.Groups[i]
		age := ""
		if !one.Oldest.IsZero() {
			age = ageText(now.Sub(one.Oldest))
		}
		limits := ""
		if one.Own {
			limits = limitsText(one.Limits)
		}
		t.add(plain(one.Group), strconv.Itoa(one.Waiting), strconv.Itoa(one.Running), age, limits)
	}
	r.printf("%s", t.draw(r.style))
	if g.More {
		r.say("there are more groups than the daemon returns at once")
	}
	return nil
}

// limitsText describes limits.
func limitsText(l job.GroupLimits) string {
	var parts []string
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at a time", l.Concurrency))
	}
	if l.Rate > 0 {
		parts = append(parts, strconv.FormatFloat(l.Rate, 'g', -1, 64)+" a second")
	}
	if l.Burst > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", l.Burst))
	}
	if len(parts) == 0 {
		return "no limit"
	}
	return strings.Join(parts, ", ")
}

// groupName returns the second argument, or the empty string without one.
func groupName(args []string) string {
	if len(args) < 2 {
		return ""
	}
	return args[1]
}

// groupArguments checks for a pool and an optional group. An empty group is refused:
// it is probably an unset variable of a script, and would change the limits of all
// groups.
func groupArguments(cmd *cobra.Command, args []string, how string) error {
	if err := wants(1, 2, how)(cmd, args); err != nil {
		return err
	}
	if len(args) == 2 && args[1] == "" {
		return errors.New("the name of the group is empty: give one, or leave it out to set the limits of all groups without their own")
	}
	return nil
}

func newGroupSet(r *remote) *cobra.Command {
	concurrency, burst := -1, -1
	rate := -1.0
	return r.command(verb{
		use: "set POOL [GROUP] [--concurrency N] [--rate N] [--burst N]", short: "Set the limits of a group",
		long: "Set limits how many jobs of a group run at the same time, on all nodes together, and how\n" +
			"many start per second. The limits apply at once, until they are set again or reset. A\n" +
			"limit that is left out is removed. Without GROUP it sets the limits of all groups\n" +
			"without their own.",
		args: func(cmd *cobra.Command, args []string) error {
			if err := groupArguments(cmd, args, "bullpen group set POOL [GROUP] --concurrency N --rate N; see: bullpen group ls POOL"); err != nil {
				return err
			}
			if concurrency < 0 && rate < 0 && len(r.bad) == 0 {
				return errors.New("no limit given: use --concurrency N, --rate N, or both; 0 means no limit")
			}
			return nil
		},
		complete: r.completePool,
		flags: func(f flagSet) {
			add(f, &concurrency, "concurrency", "c", "N", "", number(0, 1<<20), "maximum number of jobs at the same time; 0 means no limit")
			add(f, &rate, "rate", "r", "N", "", rateOf, "maximum number of jobs that start per second, such as 10 or 0.5; 0 means no limit")
			add(f, &burst, "burst", "b", "N", "", number(0, 1<<20), "maximum number of jobs that start at once after a pause; by default as many as per second")
		},
		do: func(ctx context.Context, c *client.Client, args []string) error {
			g, err := c.SetGroup(ctx, args[0], groupName(args), job.GroupLimits{
				Concurrency: max(concurrency, 0), Rate: max(rate, 0), Burst: max(burst, 0),
			})
			if err != nil {
				return ofPool(args[0], err)
			}
			return r.showGroups(&g)
		},
	})
}

// rateOf parses jobs a second.
func rateOf(text string) (float64, error) {
	n, err := units.Number(text, 0, math.MaxInt32)
	if err != nil {
		return 0, errors.New("use a number of jobs per second, such as 10 or 0.5")
	}
	return n, nil
}

func newGroupReset(r *remote) *cobra.Command {
	return r.command(verb{
		use: "reset POOL [GROUP]", short: "Reset the limits of a group",
		long: "Reset removes the limits that bullpen group set has set, so that the limits of all groups\n" +
			"apply to this one. Without GROUP it removes those of all groups, so that the\n" +
			"configuration applies.",
		args: func(cmd *cobra.Command, args []string) error {
			return groupArguments(cmd, args, "bullpen group reset POOL [GROUP]; see: bullpen group ls POOL")
		},
		complete: r.completePool,
		do: func(ctx context.Context, c *client.Client, args []string) error {
			g, err := c.ResetGroup(ctx, args[0], groupName(args))
			if err != nil {
				return ofPool(args[0], err)
			}
			return r.showGroups(&g)
		},
	})
}
