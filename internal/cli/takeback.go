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

// canceling has the flags of bullpen cancel.
type canceling struct {
	*remote
	filter job.Filter
	all    bool
	yes    bool
}

func newCancel(r *remote) *cobra.Command {
	k := &canceling{remote: r}
	cmd := r.command(verb{
		use: "cancel [ID...]", short: "Cancel jobs, by id or by filter",
		long: "Cancel cancels jobs. A waiting job never starts; a running one is asked to end, and its\n" +
			"worker is killed if it does not. A job that has ended stays unchanged; the command reports\n" +
			"it and exits with status 1. To cancel many jobs, select them by --pool, --task, --group,\n" +
			"--schedule, --batch, --state, --search, --since and --before; without --yes the command\n" +
			"only counts them.",
		example:  "  bullpen cancel 01K9GZ3Q7V8X5T2M4N6P8R0S1A\n  bullpen cancel --pool reports --state queued --yes",
		args:     k.arguments,
		complete: r.completeJob(live...),
		flags: func(f flagSet) {
			add(f, &k.filter.Queue, "pool", "p", "NAME", "", word, "only jobs of this pool")
			add(f, &k.filter.Name, "task", "t", "NAME", "", word, "only jobs of this task")
			add(f, &k.filter.States, "state", "s", "WORDS", "", several(liveStates, job.ParseState), "only jobs in these states, separated by commas: "+strings.Join(liveStates, ", "))
			findFlags(r, f, &k.filter)
			f.BoolVar(&k.filter.Newest, "newest", false, "newest first")
			add(f, &k.filter.Limit, "limit", "n", "N", "", number(1, math.MaxInt32), "at most this many jobs")
			f.BoolVarP(&k.all, "all", "a", false, "select every job that has not ended")
			f.BoolVarP(&k.yes, "yes", "y", false, "cancel the selected jobs; without --yes, only count them")
		},
		do: k.cancel,
	})
	fixed(cmd, "state", liveStates...)
	_ = cmd.RegisterFlagCompletionFunc("pool", r.completePool) // the flag exists
	return cmd
}

// selects reports whether the flags select jobs.
func (k *canceling) selects() bool { return k.all || !k.filter.All() }

func (k *canceling) arguments(_ *cobra.Command, args []string) error {
	switch {
	case len(args) > 0 && (k.selects() || k.filter.Limit > 0):
		return fmt.Errorf("both job ids and a filter are given: give ids, or select jobs by --pool, --task, --group, --schedule, --batch, --state, --search, --since, --before or --all")
	case len(args) == 0 && !k.selects() && len(k.bad) == 0:
		return fmt.Errorf("no jobs given: use bullpen cancel ID..., or --pool NAME, --task NAME, --state WORDS, --search TEXT or --all; see: bullpen ls")
	}
	return nil
}

func (k *canceling) cancel(ctx context.Context, c *client.Client, args []string) error {
	if len(args) > 0 {
		return k.eachID(ctx, c, args, func(id string) error {
			info, err := c.Cancel(ctx, id)
			if err != nil {
				return err
			}
			if k.asJSON {
				return k.object(info)
			}
			k.printf("%s %s\n", plain(id), info.State)
			return nil
		})
	}
	if !k.yes {
		return k.foretell(ctx, c)
	}
	all, err := sweepAll(ctx, c, k.filter, func(ctx context.Context, c *client.Client, f job.Filter) (job.Bulk, error) {
		return c.CancelAll(ctx, f)
	})
	if err != nil {
		k.say("%s canceled before this happened", plural(all.Count, "job"))
		return ofPool(k.filter.Queue, err)
	}
	if all.Count == 0 && len(all.Failed) == 0 {
		if err := knowsPool(ctx, c, k.filter.Queue); err != nil {
			return err
		}
	}
	s := &sweeping{remote: k.remote, what: "job", done: "canceled"}
	return s.report(&all)
}

// knowsPool returns an error if there is no such pool. It is called only if the pool
// has no jobs, because a pool that is no longer configured may still have jobs to
// select.
func knowsPool(ctx context.Context, c *client.Client, name string) error {
	if name == "" {
		return nil
	}
	_, err := c.Pool(ctx, name)
	return ofPool(name, err)
}

// foretell prints how many jobs would be canceled.
func (k *canceling) foretell(ctx context.Context, c *client.Client) error {
	f := k.filter
	f.Limit = 0
	if f.States == nil {
		f.States = live
	}
	all, more, err := countListed(ctx, f, c.List)
	if err != nil {
		return ofPool(k.filter.Queue, err)
	}
	if all == 0 {
		if err := knowsPool(ctx, c, k.filter.Queue); err != nil {
			return err
		}
	}
	how := howMany(all, more, "job")
	if most := k.filter.Limit; most > 0 {
		how += fmt.Sprintf(", of which %d at most", most)
	}
	k.say("this would cancel %s: add --yes to do it", how)
	return status(exitFailed)
}

func newRetry(r *remote) *cobra.Command {
	return r.command(verb{
		use: "retry ID...", short: "Run jobs that have ended again",
		long: "Retry runs jobs again that have ended, well or not: each becomes a new job with the same\n" +
			"payload, whose id is printed. The payload of a job that ended well may no longer be kept;\n" +
			"then it cannot be retried. To retry many dead jobs, use bullpen dead retry.",
		args:     wants(1, mostArguments, "bullpen retry ID...; see: bullpen dead ls"),
		complete: r.completeJob(job.Dead),
		do: func(ctx context.Context, c *client.Client, args []string) error {
			return r.eachID(ctx, c, args, func(id string) error { return r.again(id, func() (job.Ref, error) { return c.Retry(ctx, id) }) })
		},
	})
}

// mostArguments is no bound: the system bounds command lines.
const mostArguments = 1 << 30

// again runs a job again and prints the id of the new one.
func (r *remote) again(id string, retry func() (job.Ref, error)) error {
	ref, err := retry()
	if err != nil {
		return err
	}
	if r.asJSON {
		return r.object(struct {
			job.Ref
			Parent string `json:"parent"`
		}{ref, id})
	}
	r.printf("%s\n", ref.ID)
	return nil
}

// eachID calls do for each job. It reports each error, and stops only at one that
// would also affect the other jobs. The exit status is that of the first error.
func (r *remote) eachID(ctx context.Context, c *client.Client, ids []string, do func(id string) error) error {
	code := exitOK
	for _, id := range ids {
		err := do(id)
		if err == nil {
			err = r.flush() // print each result before the next call
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

// hopeless reports whether further calls to the same daemon would fail in the same
// way.
func hopeless(err error) bool {
	for _, is := range []error{client.ErrUnreachable, client.ErrUnauthorized, client.ErrForbidden, client.ErrAnswer} {
		if errors.Is(err, is) {
			return true
		}
	}
	_, isAnswer := errors.AsType[*client.Error](err)
	return !isAnswer
}
