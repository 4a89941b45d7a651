package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

func newSchedule(each func() *remote) *cobra.Command {
	group := groupOf("schedule", "Show and manage the schedules of a daemon", "schedules")
	group.AddCommand(newScheduleLs(each()), newScheduleShow(each()), newScheduleAdd(each()), newScheduleRm(each()), newScheduleRun(each()))
	group.AddCommand(
		scheduleVerb(each(), "pause", "Pause a schedule",
			"Pause stops the ticks of a schedule, also if the configuration defines it, and also after\n"+
				"a restart of the daemon. Ticks during the pause do not count as missed.",
			func(ctx context.Context, c *client.Client, name string) (job.ScheduleInfo, error) {
				return c.PauseSchedule(ctx, name)
			}),
		scheduleVerb(each(), "resume", "Resume a paused schedule",
			"Resume resumes a paused schedule with its next tick.",
			func(ctx context.Context, c *client.Client, name string) (job.ScheduleInfo, error) {
				return c.ResumeSchedule(ctx, name)
			}),
	)
	return group
}

func newScheduleLs(r *remote) *cobra.Command {
	return r.command(verb{
		use: "ls", short: "List the schedules",
		long: "Ls lists the schedules with their rules, their next tick, and the state of the job of the\n" +
			"last tick. FIRED counts ticks that enqueued a job; SKIPPED counts those that did not,\n" +
			"because no daemon ran then or because the last job had not ended.",
		args: wants(0, 0, "bullpen schedule ls"),
		do: func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := c.Schedules(ctx)
			if err != nil {
				return err
			}
			if r.asJSON {
				for i := range all {
					if err := r.object(&all[i]); err != nil {
						return err
					}
				}
				return nil
			}
			if len(all) == 0 {
				r.say("no schedules: add one with bullpen schedule add, or in the configuration")
				return nil
			}
			r.printf("%s", scheduleTable(all, r.now()).draw(r.style))
			return nil
		},
	})
}

func newScheduleShow(r *remote) *cobra.Command {
	return r.command(verb{
		use: "show NAME", short: "Show a schedule", long: "Show prints everything about a schedule and the job that it enqueues.",
		args: wants(1, 1, "bullpen schedule show NAME; see: bullpen schedule ls"), complete: r.completeSchedule,
		do: func(ctx context.Context, c *client.Client, args []string) error {
			s, err := c.Schedule(ctx, args[0])
			if err != nil {
				return err
			}
			if r.asJSON {
				return r.object(&s)
			}
			r.printf("%s", scheduleText(&s, r.now(), r.style))
			return nil
		},
	})
}

const scheduleAddLong = `Add adds a schedule, or replaces the one of that name, and prints its next three ticks.
Each tick enqueues one job in the pool, however many daemons there are. The payload is
the third argument, a file (@FILE; write @@TEXT for the text @TEXT), or standard
input (-).

The rule of --cron has five fields: minute, hour, day of the month, month, day of the
week; or it is @hourly, @daily, @weekly, @monthly or @yearly. Its times are in the time
zone of --zone. When clocks are changed, a tick whose time is skipped fires once, right
after the gap; a tick whose time comes twice fires once.

A schedule that is replaced without a change of its rule keeps its next tick.`

var (
	missedWords  = words(job.MissedOnce, job.MissedSkip, job.MissedAll)
	overlapWords = words(job.OverlapAllow, job.OverlapForbid)
)

// scheduling has the flags of bullpen schedule add.
type scheduling struct {
	*remote
	schedule job.Schedule
	meta     []string
}

func newScheduleAdd(r *remote) *cobra.Command {
	s := &scheduling{remote: r}
	cmd := r.command(verb{
		use: "add [flags] NAME POOL [PAYLOAD | @FILE | -]", short: "Add a schedule, or replace it",
		long: scheduleAddLong,
		example: "  bullpen schedule add nightly reports '{\"kind\":\"daily\"}' --cron '30 2 * * *' --zone Europe/Berlin\n" +
			"  bullpen schedule add sweep janitor --every 5m --overlap forbid",
		args: s.arguments, flags: s.define, complete: r.completeSchedule,
		do: s.add,
	})
	fixed(cmd, "missed", missedWords...)
	fixed(cmd, "overlap", overlapWords...)
	fixed(cmd, "priority", "high", "normal", "low")
	return cmd
}

func (s *scheduling) define(f flagSet) {
	c, j := &s.schedule, &s.schedule.Job
	missed := func(text string) (job.Missed, error) {
		word, err := near(missedWords)(text)
		if err != nil {
			return 0, err
		}
		return job.ParseMissed(word)
	}
	overlap := func(text string) (job.Overlap, error) {
		word, err := near(overlapWords)(text)
		if err != nil {
			return 0, err
		}
		return job.ParseOverlap(word)
	}
	add(f, &c.Cron, "cron", "c", "RULE", "", word, "when to run: five fields, or @daily and the like")
	add(f, &c.Every, "every", "e", "TIME", "", positive, "time between two ticks, instead of --cron")
	add(f, &c.Zone, "zone", "z", "ZONE", "UTC", word, "time zone of --cron, such as Europe/Berlin")
	add(f, &c.Missed, "missed", "", "WORD", "once", missed, "what to do with ticks that passed while no daemon ran: once (run the latest), skip, or all")
	add(f, &c.Overlap, "overlap", "", "WORD", "allow", overlap, "forbid skips a tick while the last job has not ended")
	f.BoolVar(&c.Paused, "paused", false, "add it paused")
	jobFlags(f, j, &s.meta)
}

// arguments checks arguments and flags that depend on each other.
func (s *scheduling) arguments(cmd *cobra.Command, args []string) error {
	if err := wants(2, 3, "bullpen schedule add NAME POOL [PAYLOAD | @FILE | -]; see the pools: bullpen pool ls")(cmd, args); err != nil {
		return err
	}
	c := &s.schedule
	switch {
	case len(s.bad) > 0:
	case c.Cron == "" && c.Every == 0:
		return errors.New("no rule given: use --cron '30 2 * * *' or --every 5m")
	case c.Cron != "" && c.Every != 0:
		return errors.New("--cron and --every exclude each other")
	case c.Every != 0 && cmd.Flags().Changed("zone"):
		return errors.New("--zone is for --cron: leave it out with --every")
	}
	c.Job.Meta = readMeta(s.meta, &s.bad)
	return nil
}

func (s *scheduling) add(ctx context.Context, c *client.Client, args []string) error {
	s.schedule.Name, s.schedule.Job.Queue = args[0], args[1]
	if s.schedule.Every != 0 {
		s.schedule.Zone = ""
	}
	if len(args) > 2 {
		from := &submission{remote: s.remote, payload: args[2], havePayload: true}
		var err error
		if s.schedule.Job.Payload, err = from.read(); err != nil {
			return err
		}
	}
	info, err := c.PutSchedule(ctx, s.schedule)
	if err != nil {
		return ofPool(args[1], err)
	}
	if s.asJSON {
		return s.object(&info)
	}
	if info.Paused {
		s.printf("%s: paused; resume it with: bullpen schedule resume %s\n", plain(info.Name), plain(info.Name))
		return nil
	}
	s.printf("%s: next %s\n", plain(info.Name), upcomingText(&info))
	return nil
}

func newScheduleRm(r *remote) *cobra.Command {
	return r.command(verb{
		use: "rm NAME...", short: "Remove schedules",
		long: "Rm removes schedules. Jobs that they have enqueued stay. Remove a schedule of the\n" +
			"configuration file there.",
		args: wants(1, math.MaxInt32, "bullpen schedule rm NAME...; see: bullpen schedule ls"), complete: r.completeSchedule,
		do: func(ctx context.Context, c *client.Client, args []string) error {
			for _, name := range args {
				if err := c.RemoveSchedule(ctx, name); err != nil {
					return fmt.Errorf("%s: %w", plain(name), err)
				}
				if !r.asJSON {
					r.printf("%s: removed\n", plain(name))
				}
			}
			return nil
		},
	})
}

func newScheduleRun(r *remote) *cobra.Command {
	return r.command(verb{
		use: "run NAME", short: "Enqueue a job of a schedule now",
		long: "Run enqueues a job of a schedule now and prints its id, even if the schedule is paused.\n" +
			"The next ticks do not change.",
		args: wants(1, 1, "bullpen schedule run NAME; see: bullpen schedule ls"), complete: r.completeSchedule,
		do: func(ctx context.Context, c *client.Client, args []string) error {
			ref, err := c.RunSchedule(ctx, args[0])
			if err != nil {
				return err
			}
			if r.asJSON {
				return r.object(ref)
			}
			r.printf("%s\n", ref.ID)
			return nil
		},
	})
}

// scheduleVerb returns a command that does one thing to a schedule.
func scheduleVerb(r *remote, name, short, long string, do func(ctx context.Context, c *client.Client, schedule string) (job.ScheduleInfo, error)) *cobra.Command {
	return r.command(verb{
		use: name + " NAME", short: short, long: long,
		args: wants(1, 1, "bullpen schedule "+name+" NAME; see: bullpen schedule ls"), complete: r.completeSchedule,
		do: func(ctx context.Context, c *client.Client, args []string) error {
			s, err := do(ctx, c, args[0])
			if err != nil {
				return err
			}
			if r.asJSON {
				return r.object(&s)
			}
			if s.Paused {
				r.printf("%s: paused\n", plain(s.Name))
				return nil
			}
			r.printf("%s: next %s\n", plain(s.Name), upcomingText(&s))
			return nil
		},
	})
}

// completeSchedule completes the name of a schedule; a second argument is a pool.
func (r *remote) completeSchedule(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	switch {
	case cmd.Name() == "add" && len(args) == 1:
		return r.completePool(cmd, nil, prefix)
	case cmd.Name() == "add" && len(args) == 2 && strings.HasPrefix(prefix, "@"):
		return nil, cobra.ShellCompDirectiveDefault
	case len(args) > 0 && cmd.Name() != "rm":
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return r.completed(cmd, prefix, func(ctx context.Context, c *client.Client) ([]string, error) {
		all, err := c.Schedules(ctx)
		names := make([]string, len(all))
		for i := range all {
			names[i] = all[i].Name + "\t" + ruleText(&all[i])
		}
		return names, err
	})
}
