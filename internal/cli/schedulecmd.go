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
	group := groupOf("schedule", "Look after the schedules of a daemon", "schedules")
	group.AddCommand(newScheduleLs(each()), newScheduleShow(each()), newScheduleAdd(each()), newScheduleRm(each()), newScheduleRun(each()))
	group.AddCommand(
		scheduleVerb(each(), "pause", "Stop the ticks of a schedule",
			"Pause stops the ticks of a schedule, also one of the configuration and also after a\nrestart of the daemon. None is missed meanwhile.",
			func(ctx context.Context, c *client.Client, name string) (job.ScheduleInfo, error) {
				return c.PauseSchedule(ctx, name)
			}),
		scheduleVerb(each(), "resume", "Let a schedule go on",
			"Resume lets a paused schedule go on, with its next tick.",
			func(ctx context.Context, c *client.Client, name string) (job.ScheduleInfo, error) {
				return c.ResumeSchedule(ctx, name)
			}),
	)
	return group
}

func newScheduleLs(r *remote) *cobra.Command {
	return r.command(verb{
		use: "ls", short: "List the schedules",
		long: "Ls lists the schedules with their rules, when they are due next, and how the job of\nthe last tick is. FIRED ticks have enqueued a job; SKIPPED ones have not, because no\ndaemon ran then or because the last job had not ended.",
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
				r.say("no schedules: make one by bullpen schedule add, or in the configuration")
				return nil
			}
			r.printf("%s", scheduleTable(all, r.now()).draw(r.style))
			return nil
		},
	})
}

func newScheduleShow(r *remote) *cobra.Command {
	return r.command(verb{
		use: "show NAME", short: "Tell all about a schedule", long: "Show tells all about a schedule and what it enqueues.",
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

const scheduleAddLong = `Add makes a schedule, or replaces the one of that name: a job is given to the pool at
each tick, once, however many daemons there are. The payload is the third argument,
a file (@FILE; @@TEXT is the text @TEXT), or standard input (-).

A rule of --cron has five fields: minute, hour, day of the month, month, day of the
week; or is @hourly, @daily, @weekly, @monthly or @yearly. It is read in the zone of
--zone. A time of day that a night leaves out, because clocks are changed, fires once
when the gap is over; one that comes twice fires once. The next three ticks are
printed.

A schedule whose rule stays the same goes on where it was.`

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
		use: "add [flags] NAME POOL [PAYLOAD | @FILE | -]", short: "Make a schedule, or replace it",
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
	add(f, &c.Cron, "cron", "c", "RULE", "", word, "when: five fields, or @daily and the like")
	add(f, &c.Every, "every", "e", "TIME", "", positive, "when: from tick to tick, instead of --cron")
	add(f, &c.Zone, "zone", "z", "ZONE", "UTC", word, "time zone of --cron, such as Europe/Berlin")
	add(f, &c.Missed, "missed", "", "WORD", "once", missed, "ticks that no daemon ran for: once (the latest fires), skip, or all")
	add(f, &c.Overlap, "overlap", "", "WORD", "allow", overlap, "forbid skips a tick while the last job has not ended")
	f.BoolVar(&c.Paused, "paused", false, "make it paused")
	add(f, &j.Name, "task", "t", "NAME", "", word, "name of the task: which of its handlers a worker runs; by default the pool's")
	add(f, &j.Priority, "priority", "", "WORD", "normal", parsePriority, "high, normal or low")
	add(f, &j.Limits.Timeout, "timeout", "", "TIME", "", positive, "longest run time of an attempt")
	add(f, &j.Limits.Memory, "memory", "", "SIZE", "", size, "most memory of an attempt")
	add(f, &j.Limits.CPU, "cpu", "", "N", "", share, "most processors for an attempt")
	add(f, &j.Retry.Attempts, "attempts", "", "N", "", number(1, math.MaxInt32), "how many attempts may end badly")
	add(f, &j.Retry.Backoff, "backoff", "", "TIME", "", positive, "time before the second attempt; it doubles with each")
	add(f, &j.Retry.MaxBackoff, "max-backoff", "", "TIME", "", positive, "longest time between two attempts")
	add(f, &j.Retry.Crashes, "crashes", "", "N", "", number(1, math.MaxInt32), "how many workers the job may kill before it is put aside")
	f.BoolVar(&j.Idempotent, "idempotent", false, "running it twice does no harm: it is tried again also when its worker was lost")
	add(f, &j.Compensate, "compensate", "", "NAME", "", word, "task that undoes what is left of the job when it ends badly")
	add(f, &j.Bury, "bury", "", "NAME", "", word, "task that is told of each job that is dead, with its payload; by default the pool's retry.bury")
	add(f, &j.Group, "group", "", "NAME", "", word, "the group of the jobs, whose limits and turns they have")
	f.StringArrayVar(&s.meta, "meta", nil, "`NAME=VALUE` that travels to the handler, repeatable")
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
		return errors.New("when? give --cron '30 2 * * *' or --every 5m")
	case c.Cron != "" && c.Every != 0:
		return errors.New("--cron and --every: use one of them")
	case c.Every != 0 && cmd.Flags().Changed("zone"):
		return errors.New("--zone is for --cron: leave it out with --every")
	}
	c.Job.Meta = map[string]string{}
	for _, m := range s.meta {
		name, value, ok := strings.Cut(m, "=")
		if !ok || name == "" {
			s.bad.add("--meta %q: use NAME=VALUE", m)
			continue
		}
		c.Job.Meta[name] = value
	}
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
		s.printf("%s: paused; let it go on by: bullpen schedule resume %s\n", plain(info.Name), plain(info.Name))
		return nil
	}
	s.printf("%s: next %s\n", plain(info.Name), upcomingText(&info))
	return nil
}

func newScheduleRm(r *remote) *cobra.Command {
	return r.command(verb{
		use: "rm NAME...", short: "Remove schedules",
		long: "Rm removes schedules. Jobs that they have enqueued stay. One of the configuration is\nremoved there.",
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
		long: "Run enqueues a job of a schedule now and prints its id, also when the schedule is\npaused. Its ticks stay as they are.",
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
