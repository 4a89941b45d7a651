package cli

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

func newDead(each func() *remote) *cobra.Command {
	group := groupOf("dead", "List, retry and remove jobs that have failed for good", "deads")
	group.AddCommand(newDeadLs(each()), newDeadCauses(each()), newDeadShow(each()), newDeadRetry(each()), newDeadRm(each()))
	return group
}

// deadReasons are the reasons that a dead job can have, jobReasons those of any job.
var (
	deadReasons = []string{
		string(job.Exhausted), string(job.Final), string(job.Quarantined), string(job.Expired),
		string(job.Refused), string(job.Corrupt),
	}
	jobReasons = append(slices.Clone(deadReasons), string(job.TakenBack))
)

func outcomeWords() []string {
	var words []string
	for _, o := range bullpen.Outcomes() {
		if o != bullpen.OK {
			words = append(words, o.String())
		}
	}
	return words
}

// deadFlags adds the flags that select dead jobs.
func deadFlags(r *remote, f flagSet, filter *job.Filter) {
	add(f, &filter.Queue, "pool", "p", "NAME", "", word, "only jobs of this pool")
	add(f, &filter.Name, "task", "t", "NAME", "", word, "only jobs of this task")
	findFlags(r, f, filter)
	endFlags(f, filter, deadReasons)
}

// endFlags adds the flags that select by how jobs have ended.
func endFlags(f flagSet, filter *job.Filter, reasons []string) {
	whyFlags(f, filter, reasons)
	add(f, &filter.Cause, "cause", "", "ID", "", word, "only jobs with this cause; see bullpen dead causes")
}

func whyFlags(f flagSet, filter *job.Filter, reasons []string) {
	reason := func(text string) (job.Reason, error) {
		s, err := near(reasons)(text)
		return job.Reason(s), err
	}
	add(f, &filter.Reason, "reason", "r", "WORD", "", reason, "only jobs that ended for this reason: "+strings.Join(reasons, ", "))
	add(f, &filter.Outcome, "outcome", "", "WORD", "", near(outcomeWords()), "only jobs whose last attempt ended with this outcome: "+strings.Join(outcomeWords(), ", "))
}

func completeDead(r *remote, cmd *cobra.Command) *cobra.Command {
	fixed(cmd, "reason", deadReasons...)
	fixed(cmd, "outcome", outcomeWords()...)
	_ = cmd.RegisterFlagCompletionFunc("pool", r.completePool) // the flag exists
	return cmd
}

func newDeadLs(r *remote) *cobra.Command {
	var l listing
	return completeDead(r, r.command(verb{
		use: "ls", short: "List the dead jobs",
		long: "Ls lists the jobs that have failed for good, with the reason: exhausted (all attempts\n" +
			"failed), final (no retry would help), quarantined (it killed too many workers), expired\n" +
			"(its deadline passed), refused (no worker accepts it), corrupt (the stored job is\n" +
			"damaged).",
		args: wants(0, 0, "bullpen dead ls --pool NAME --reason WORD"),
		flags: func(f flagSet) {
			l.define(r, f)
			endFlags(f, &l.filter, deadReasons)
		},
		do: func(ctx context.Context, c *client.Client, _ []string) error {
			return r.list(ctx, &l, c.ListDead, "bullpen dead ls", "no dead jobs")
		},
	}))
}

func newDeadShow(r *remote) *cobra.Command {
	return r.command(verb{
		use: "show ID", short: "Show a dead job with its evidence and its payload",
		long: "Show prints everything about a dead job: why it died, how each attempt ended, the last\n" +
			"lines of its worker, and its payload if that is text.",
		args: wants(1, 1, "bullpen dead show ID; see: bullpen dead ls"), complete: r.completeJob(job.Dead),
		do: func(ctx context.Context, c *client.Client, args []string) error {
			info, err := c.GetDead(ctx, args[0])
			if err != nil {
				return ofJob(args[0], err)
			}
			if r.asJSON {
				return r.object(info)
			}
			r.printf("%s", jobText(info, r.now(), r.style))
			r.printf("%s", payloadText(info))
			return nil
		},
	})
}

// payloadText returns the beginning of a payload.
func payloadText(info *job.Info) string {
	const most = 2000
	if len(info.Payload) == 0 {
		return ""
	}
	if !readable(info.Payload) {
		return fmt.Sprintf("\npayload: %s of binary data: bullpen get %s --payload > FILE\n", sizeText(int64(len(info.Payload))), plain(info.ID))
	}
	text := string(info.Payload)
	rest := ""
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
		rest = fmt.Sprintf("  … %s in all: bullpen get %s --payload\n", sizeText(int64(len(info.Payload))), plain(info.ID))
	}
	var b strings.Builder
	b.WriteString("\npayload")
	indentPlain(&b, text)
	return b.String() + "\n" + rest
}

// sweeping has the flags of commands that take ids of dead jobs, or select many.
type sweeping struct {
	*remote
	filter job.Filter
	all    bool
	yes    bool

	verb, done string // "try again", "tried again"
	what       string // "dead job"
	self       string // the name of the command
	one        func(ctx context.Context, c *client.Client, id string) error
	many       func(ctx context.Context, c *client.Client, f job.Filter) (job.Bulk, error)
}

func newDeadRetry(r *remote) *cobra.Command {
	s := &sweeping{remote: r, verb: "try again", done: "tried again", what: "dead job", self: "bullpen dead retry"}
	s.one = func(ctx context.Context, c *client.Client, id string) error {
		return r.again(id, func() (job.Ref, error) { return c.RetryDead(ctx, id) })
	}
	s.many = func(ctx context.Context, c *client.Client, f job.Filter) (job.Bulk, error) {
		return c.RetryDeadAll(ctx, f)
	}
	return s.command("retry", "Retry dead jobs, by id or by filter",
		"Retry enqueues dead jobs again, each as a new job with the same payload. Give their ids,\n"+
			"and the new ids are printed; or select them by --pool, --task, --group, --schedule,\n"+
			"--batch, --cause, --reason, --outcome, --search, --since and --before. --all selects\n"+
			"every dead job, and asks for confirmation.",
		"  bullpen dead retry --pool reports --outcome crashed\n  bullpen dead retry --cause 89af7e51c13b --since 1h")
}

func newDeadRm(r *remote) *cobra.Command {
	s := &sweeping{remote: r, verb: "forget", done: "forgotten", what: "dead job", self: "bullpen dead rm"}
	s.one = func(ctx context.Context, c *client.Client, id string) error { return c.RemoveDead(ctx, id) }
	s.many = func(ctx context.Context, c *client.Client, f job.Filter) (job.Bulk, error) {
		return c.RemoveDeadAll(ctx, f)
	}
	return s.command("rm", "Remove dead jobs, by id or by filter",
		"Rm removes dead jobs with their evidence and their payload. Give their ids, or select\n"+
			"them by --pool, --task, --group, --schedule, --batch, --cause, --reason, --outcome,\n"+
			"--search, --since and --before. --all selects every dead job, and asks for confirmation.",
		"  bullpen dead rm --reason expired")
}

func (s *sweeping) command(name, short, long, example string) *cobra.Command {
	return completeDead(s.remote, s.remote.command(verb{
		use: name + " [ID...]", short: short, long: long, example: example,
		args: s.arguments, complete: s.completeJob(job.Dead),
		flags: func(f flagSet) {
			deadFlags(s.remote, f, &s.filter)
			add(f, &s.filter.Limit, "limit", "n", "N", "", number(1, math.MaxInt32), "at most this many jobs")
			f.BoolVarP(&s.all, "all", "a", false, "select every dead job, after asking for confirmation")
			f.BoolVarP(&s.yes, "yes", "y", false, "do not ask for confirmation")
		},
		do: s.sweep,
	}))
}

// selects reports whether the flags select jobs.
func (s *sweeping) selects() bool {
	return s.all || !s.filter.All()
}

func (s *sweeping) arguments(_ *cobra.Command, args []string) error {
	switch {
	case len(args) > 0 && (s.selects() || s.filter.Limit > 0):
		return fmt.Errorf("both job ids and a filter are given: give ids, or select jobs by --pool, --task, --group, --schedule, --batch, --cause, --reason, --outcome, --search, --since, --before or --all")
	case len(args) == 0 && !s.selects() && len(s.bad) == 0:
		return fmt.Errorf("no jobs given: use %s ID..., or --pool NAME, --task NAME, --cause ID, --reason WORD, --search TEXT or --all; see: bullpen dead ls", s.self)
	}
	return nil
}

func (s *sweeping) sweep(ctx context.Context, c *client.Client, args []string) error {
	if len(args) > 0 {
		return s.eachID(ctx, c, args, func(id string) error { return s.one(ctx, c, id) })
	}
	if s.all && !s.yes {
		if err := s.confirm(ctx, c); err != nil {
			return err
		}
	}
	all, err := sweepAll(ctx, c, s.filter, s.many)
	if err != nil {
		s.say("%s %s before this happened", plural(all.Count, "dead job"), s.done)
		return ofPool(s.filter.Queue, err)
	}
	if all.Count == 0 && len(all.Failed) == 0 {
		if err := knowsPool(ctx, c, s.filter.Queue); err != nil {
			return err
		}
	}
	return s.report(&all)
}

// sweepAll applies do to all jobs that a filter selects, page by page, and skips
// those for which it fails.
func sweepAll(ctx context.Context, c *client.Client, f job.Filter, do func(context.Context, *client.Client, job.Filter) (job.Bulk, error)) (all job.Bulk, err error) {
	most := f.Limit
	for {
		if most > 0 {
			f.Limit = min(most-all.Count, mostOfPage)
		}
		part, err := do(ctx, c, f)
		all.Count += part.Count
		all.Failed = append(all.Failed, part.Failed...)
		all.More = part.More
		stands := part.Count == 0 && (part.Next == "" || part.Next == f.After)
		if err != nil || !part.More || stands || most > 0 && all.Count >= most {
			return all, err
		}
		f.After = part.Next
	}
}

// countTime bounds how long jobs are counted.
const countTime = 5 * time.Second

// countListed counts the jobs of a list; more reports that there was no time to count
// all.
func countListed(ctx context.Context, f job.Filter, list func(context.Context, job.Filter) (job.Page, error)) (n int, more bool, err error) {
	f.Limit = mostOfPage
	for end := time.Now().Add(countTime); ; {
		page, err := list(ctx, f)
		if err != nil {
			return n, false, err
		}
		n += len(page.Jobs)
		if page.Next == "" || page.Next == f.After {
			return n, false, nil
		}
		if f.After = page.Next; time.Now().After(end) {
			return n, true, nil
		}
	}
}

func howMany(n int, more bool, what string) string {
	if more {
		return "more than " + plural(n, what)
	}
	return plural(n, what)
}

// report reports what happened to the selected jobs.
func (s *sweeping) report(all *job.Bulk) error {
	if s.asJSON {
		if err := s.object(struct {
			Count  int           `json:"count"`
			Failed []job.Failure `json:"failed"`
			More   bool          `json:"more"`
			Next   string        `json:"next,omitempty"`
		}{all.Count, append([]job.Failure{}, all.Failed...), all.More, all.Next}); err != nil {
			return err
		}
	} else {
		s.printf("%s %s\n", plural(all.Count, s.what), s.done)
	}
	if len(all.Failed) == 0 {
		return nil
	}
	if err := s.flush(); err != nil {
		return err
	}
	for _, f := range all.Failed {
		s.say("%s: %v", f.ID, f.Err)
	}
	return status(exitFailed)
}

// confirm asks whether really all dead jobs are meant.
func (s *sweeping) confirm(ctx context.Context, c *client.Client) error {
	if !isFileTerminal(s.stdin) || !isTerminal(s.stderr) {
		return usageError{fmt.Errorf("--all selects every dead job: add --yes to confirm")}
	}
	f := s.filter
	f.Limit = 0
	n, more, err := countListed(ctx, f, c.ListDead)
	if err != nil {
		return err
	}
	how := howMany(n, more, "dead job")
	fmt.Fprintf(s.stderr, "bullpen: %s %s? [y/N] ", s.verb, how)
	answer := make(chan string, 1)
	go func() { // ends with the line or the process; no goroutine waits for it
		line, _ := bufio.NewReader(s.stdin).ReadString('\n') // an error counts as no
		answer <- line
	}()
	select {
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		s.say("nothing was done")
		return status(exitFailed)
	case <-ctx.Done():
		fmt.Fprintln(s.stderr)
		return ctx.Err()
	}
}
