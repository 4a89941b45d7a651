package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// getting has the flags of bullpen get.
type getting struct {
	*remote
	wait            waitFlag
	result, payload bool
}

func newGet(r *remote) *cobra.Command {
	g := &getting{remote: r}
	cmd := r.command(verb{
		use: "get ID", short: "Show a job, or print its result or its payload",
		long: "Get shows everything about a job: its state, its attempts, how it failed and the last\n" +
			"lines that it printed. With --result it prints the result unchanged, with --payload the\n" +
			"payload, as long as they are kept. With --wait it first waits until the job has ended;\n" +
			"the exit status is then 0 if it ended well, 1 if not.",
		example:  "  bullpen get 01K9GZ3Q7V8X5T2M4N6P8R0S1A\n  bullpen get 01K9GZ3Q7V8X5T2M4N6P8R0S1A --wait=1m --result > small.jpg",
		complete: r.completeJob(),
		args:     g.arguments,
		flags: func(f flagSet) {
			g.wait.define(f, "wait until the job has ended, or at most this long")
			f.BoolVar(&g.result, "result", false, "print the result, unchanged")
			f.BoolVar(&g.payload, "payload", false, "print the payload, unchanged")
		},
		do: func(ctx context.Context, c *client.Client, args []string) error { return g.get(ctx, c, args[0]) },
	})
	g.wait.optional(cmd)
	return cmd
}

func (g *getting) arguments(cmd *cobra.Command, args []string) error {
	if err := wants(1, 1, "bullpen get ID; see: bullpen ls")(cmd, args); err != nil {
		return err
	}
	if g.result && g.payload {
		g.bad.add("--result and --payload exclude each other")
	}
	if g.payload && g.wait.limit != 0 {
		g.bad.add("--payload and --wait exclude each other: the payload is available from the start")
	}
	return nil
}

func (g *getting) get(ctx context.Context, c *client.Client, id string) error {
	switch {
	case g.payload:
		payload, err := c.Payload(ctx, id)
		if err != nil {
			return ofJob(id, err)
		}
		return g.bytes(payload, "the payload", "bullpen get "+id+" --payload > FILE")
	case g.wait.limit != 0:
		return g.await(ctx, id, g.wait.limit, func(result bullpen.Result) error {
			if g.result {
				return g.remote.result(ctx, c, id, result)
			}
			return g.show(ctx, c, id)
		})
	case g.result:
		result, err := c.Result(ctx, id)
		if errors.Is(err, job.ErrNotEnded) {
			return fmt.Errorf("the job has not ended; wait for it: bullpen get %s --wait --result", id)
		}
		if end, ok := errors.AsType[*job.EndError](err); ok {
			return g.badEnd(ctx, c, id, end)
		}
		if err != nil {
			return ofJob(id, err)
		}
		return g.remote.result(ctx, c, id, result)
	}
	return g.show(ctx, c, id)
}

// show prints all information about a job.
func (r *remote) show(ctx context.Context, c *client.Client, id string) error {
	info, err := c.Get(ctx, id)
	if err != nil {
		return ofJob(id, err)
	}
	if r.asJSON {
		return r.object(info)
	}
	r.printf("%s", jobText(info, r.now(), r.style))
	return nil
}

// listing has the flags of commands that list jobs.
type listing struct {
	filter job.Filter
	all    bool
}

// mostOfPage is the maximum number of jobs that a daemon returns at once.
const mostOfPage = 1000

func (l *listing) define(r *remote, f flagSet) {
	l.filter.Limit = 50
	add(f, &l.filter.Queue, "pool", "p", "NAME", "", word, "only jobs of this pool")
	add(f, &l.filter.Name, "task", "t", "NAME", "", word, "only jobs of this task")
	add(f, &l.filter.Limit, "limit", "n", "N", "50", number(1, math.MaxInt32), "at most this many jobs")
	findFlags(r, f, &l.filter)
	f.BoolVar(&l.filter.Newest, "newest", false, "newest first: by when they ended, or were enqueued if they have not ended")
	f.BoolVarP(&l.all, "all", "a", false, "all jobs, without a limit")
}

// findFlags adds the flags that search for jobs in any list.
func findFlags(r *remote, f flagSet, filter *job.Filter) {
	now := r.now()
	add(f, &filter.Group, "group", "", "NAME", "", word, "only jobs of this group")
	add(f, &filter.Schedule, "schedule", "", "NAME", "", word, "only jobs that this schedule has enqueued")
	add(f, &filter.Batch, "batch", "", "ID", "", word, "only members of this batch")
	add(f, &filter.Search, "search", "", "TEXT", "", word, "only jobs with this text in their id, task, key or group, or, once they have ended, in their error")
	add(f, &filter.Since, "since", "", "TIME", "", past(now), "only jobs that ended since this time, or were enqueued if they have not ended; a duration counts back from now")
	add(f, &filter.Before, "before", "", "TIME", "", past(now), "only jobs that ended before this time, or were enqueued if they have not ended")
}

func newLs(r *remote) *cobra.Command {
	var l listing
	cmd := r.command(verb{
		use: "ls", short: "List jobs",
		long: "Ls lists the jobs of the daemon. Jobs that have ended are kept for a while, dead ones\n" +
			"longer; see also bullpen dead ls.",
		example: "  bullpen ls --state queued,running\n  bullpen ls --newest --search order-4711\n  bullpen ls --pool thumbnails --all --json | jq -r 'select(.attempts > 1).id'",
		args:    wants(0, 0, "bullpen ls --pool NAME --state WORDS --task NAME"),
		flags: func(f flagSet) {
			add(f, &l.filter.States, "state", "s", "WORDS", "", several(jobStates, job.ParseState), "only jobs in these states, separated by commas: "+strings.Join(jobStates, ", "))
			l.define(r, f)
			endFlags(f, &l.filter, jobReasons)
		},
		do: func(ctx context.Context, c *client.Client, _ []string) error {
			return r.list(ctx, &l, c.List, "bullpen ls", "no jobs")
		},
	})
	fixed(cmd, "state", jobStates...)
	fixed(cmd, "reason", jobReasons...)
	fixed(cmd, "outcome", outcomeWords()...)
	_ = cmd.RegisterFlagCompletionFunc("pool", r.completePool) // the flag exists
	return cmd
}

// live are the states of jobs that have not ended. liveStates are their words, jobStates
// those of all states.
var (
	live       = []job.State{job.Scheduled, job.Queued, job.Running, job.Retrying}
	liveStates = words(live...)
	jobStates  = append(words(live...), words(job.Done, job.Dead, job.Canceled)...)
)

// words returns the words for some values.
func words[T fmt.Stringer](values ...T) []string {
	all := make([]string, len(values))
	for i, v := range values {
		all[i] = v.String()
	}
	return all
}

// several returns a parser for some of these words, separated by commas or given in several
// flags.
func several[T any](known []string, parse func(string) (T, error)) func(string) ([]T, error) {
	var all []T
	return func(text string) ([]T, error) {
		for part := range strings.SplitSeq(text, ",") {
			word, err := near(known)(part)
			if err != nil {
				return nil, err
			}
			v, err := parse(word)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, nil
	}
}

// near returns a parser for one of some words, which suggests the word that was
// probably meant.
func near(words []string) func(string) (string, error) {
	return func(text string) (string, error) {
		s, err := oneOf(words...)(text)
		if n := nearest(text, words); err != nil && n != "" {
			err = fmt.Errorf("did you mean %s? %w", n, err)
		}
		return s, err
	}
}

// list prints jobs page by page: with --json one at a time, otherwise as a table.
func (r *remote) list(ctx context.Context, l *listing, page func(context.Context, job.Filter) (job.Page, error), self, none string) error {
	f, left := l.filter, l.filter.Limit
	if l.all {
		left = math.MaxInt
	}
	var jobs []job.Info
	total := 0
	for {
		f.Limit = min(left, mostOfPage)
		p, err := page(ctx, f)
		if err != nil {
			return ofPool(l.filter.Queue, err)
		}
		if p.Next == f.After {
			p.Next = ""
		}
		left -= len(p.Jobs)
		total += len(p.Jobs)
		f.After = p.Next
		if err := r.rows(&jobs, p.Jobs); err != nil {
			return err
		}
		if p.Next == "" || left <= 0 {
			break
		}
	}
	if len(jobs) > 0 {
		r.printf("%s", jobTable(jobs, r.now()).draw(r.style))
	}
	if r.asJSON || f.After == "" && total > 0 {
		return nil
	}
	if err := r.flush(); err != nil {
		return err
	}
	if total == 0 {
		r.say("%s", none)
	} else {
		r.say("there are more: %s --all, or --limit N", self)
	}
	return nil
}

// mostOfTable is how many rows are laid out together: a longer list is printed in
// parts, so that memory stays bounded.
const mostOfTable = 10_000

// rows handles the jobs of a page: with --json it prints them, otherwise it collects
// them until a part of the table is full.
func (r *remote) rows(waiting *[]job.Info, jobs []job.Info) error {
	if !r.asJSON {
		*waiting = append(*waiting, jobs...)
		if len(*waiting) < mostOfTable {
			return nil
		}
		r.printf("%s", jobTable(*waiting, r.now()).draw(r.style))
		*waiting = (*waiting)[:0]
		return r.flush()
	}
	for i := range jobs {
		if err := r.object(&jobs[i]); err != nil {
			return err
		}
	}
	return r.flush()
}
