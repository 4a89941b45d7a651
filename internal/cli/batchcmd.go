package cli

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

func newBatch(each func() *remote) *cobra.Command {
	group := groupOf("batch", "Submit and manage batches of jobs", "batches")
	group.AddCommand(newBatchSubmit(each()), newBatchLs(each()), newBatchShow(each()), newBatchCancel(each()))
	return group
}

var batchStates = words(job.BatchOpen, job.BatchRunning, job.BatchDone, job.BatchCanceled)

// callback parses TASK, TASK@POOL or @POOL.
func callback(text string) (*job.Job, error) {
	j, err := linkOf(text)
	return &j, err
}

func linkOf(text string) (job.Job, error) {
	task, pool, found := strings.Cut(text, "@")
	if text == "" || found && pool == "" {
		return job.Job{}, fmt.Errorf("use TASK or TASK@POOL")
	}
	return job.Job{Name: task, Queue: pool}, nil
}

// batching has the flags of bullpen batch submit.
type batching struct {
	*submission
	batch job.Batch
}

func newBatchSubmit(r *remote) *cobra.Command {
	r.retries = bulkRetries
	b := &batching{submission: &submission{remote: r}}
	b.ndjson, b.bulk = false, true
	cmd := r.command(verb{
		use: "submit [flags] POOL", short: "Submit a batch: one job per line of standard input",
		long: "Submit creates a batch and prints its id. Each line of standard input is the payload of\n" +
			"a job, or with --ndjson a job as for bullpen submit --bulk. --then names a task that runs\n" +
			"once when all jobs have ended, with the counts as its payload; --failed names one that\n" +
			"runs once when the first job has failed for good. With --key the batch is created only\n" +
			"once: after an interruption, run the same command again to continue.",
		example: "  bullpen batch submit thumbnails --then report@mail --wait < names.txt\n" +
			"  jq -c '.[] | {task: \"resize\", payload: .url}' photos.json | bullpen batch submit thumbnails --ndjson --key import-7",
		args: wants(1, 1, "bullpen batch submit POOL < FILE; see the pools: bullpen pool ls"), complete: r.completePool,
		flags: func(f flagSet) {
			add(f, &b.batch.Then, "then", "", "TASK[@POOL]", "", callback, "task that runs when all jobs have ended; by default in the same pool")
			add(f, &b.batch.Failed, "failed", "", "TASK[@POOL]", "", callback, "task that runs when the first job has failed for good")
			add(f, &b.batch.Key, "key", "k", "TEXT", "", word, "a unique name for the batch: a batch with the same key is not created twice")
			add(f, &b.job.Name, "task", "t", "NAME", "", word, "name of the task; by default the pool's")
			add(f, &b.job.Priority, "priority", "", "WORD", "normal", parsePriority, "high, normal or low")
			add(f, &b.job.Retry.Attempts, "attempts", "", "N", "", number(1, math.MaxInt32), "number of failed attempts after which the job is dead")
			f.BoolVar(&b.ndjson, "ndjson", false, "each line is a JSON object")
			b.wait.define(f, "wait until all jobs have ended, or at most this long, and print the counts")
		},
		do: func(ctx context.Context, c *client.Client, args []string) error {
			return b.submitBatch(ctx, c, args[0])
		},
	})
	b.wait.optional(cmd)
	fixed(cmd, "priority", "high", "normal", "low")
	return cmd
}

func (b *batching) submitBatch(ctx context.Context, c *client.Client, pool string) error {
	for _, callback := range []*job.Job{b.batch.Then, b.batch.Failed} {
		if callback != nil {
			callback.Queue = cmp.Or(callback.Queue, pool)
		}
	}
	info, err := c.OpenBatch(ctx, b.batch)
	if err != nil {
		return ofPool(pool, err)
	}
	if info.State != job.BatchOpen {
		b.say("a batch with this key exists already: it is %s", info.State)
		return b.made(ctx, info)
	}
	total, err := b.addAll(ctx, c, info.ID, pool)
	if err != nil {
		return b.unfinished(ctx, c, info.ID, err)
	}
	sealed, err := c.SealBatch(ctx, info.ID, total)
	if err != nil {
		return b.unfinished(ctx, c, info.ID, err)
	}
	return b.made(ctx, sealed)
}

// unfinished explains how to continue a batch that was not sealed. Only a batch with
// a key can be continued.
func (b *batching) unfinished(ctx context.Context, c *client.Client, id string, err error) error {
	if b.batch.Key != "" {
		b.say("batch %s is not complete: run the same command again to continue", id)
		return err
	}
	if _, failed := c.CancelBatch(context.WithoutCancel(ctx), id); failed != nil {
		b.say("batch %s is not complete and could not be canceled (%v): bullpen batch cancel %s", id, failed, id)
	} else {
		b.say("batch %s was canceled", id)
	}
	return err
}

// addAll adds a job for each line of standard input, and returns the number of jobs.
func (b *batching) addAll(ctx context.Context, c *client.Client, id, pool string) (total int, err error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	lines, failed := make(chan bulkLine, batchJobs), make(chan error, 1)
	go func() { // ends with the input; after the command is over, when its read returns
		defer close(lines)
		failed <- b.readLines(reading, lines)
	}()
	for {
		piece := gather(ctx, lines)
		if len(piece) == 0 {
			break
		}
		jobs := make([]job.Job, len(piece))
		for i := range piece {
			if piece[i].err != nil {
				return total, usageError{fmt.Errorf("line %d: %w", piece[i].number, piece[i].err)}
			}
			jobs[i] = piece[i].job
			jobs[i].Queue = pool
		}
		if _, err := c.AddToBatch(ctx, id, total, jobs); err != nil {
			return total, ofPool(pool, err)
		}
		total += len(jobs)
	}
	if ctx.Err() != nil {
		return total, status(exitInterrupted)
	}
	if err := <-failed; err != nil {
		return total, usageError{err}
	}
	return total, nil
}

// made prints the id of a batch or, if asked, waits for its end and prints that.
func (b *batching) made(ctx context.Context, info *job.BatchInfo) error {
	if b.wait.limit == 0 {
		if b.asJSON {
			return b.object(info)
		}
		b.printf("%s\n", plain(info.ID))
		return nil
	}
	c, err := b.patient()
	if err != nil {
		return err
	}
	defer c.Close()
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if b.wait.limit != forever {
		waiting, cancel = context.WithTimeout(ctx, b.wait.limit)
	}
	defer cancel()
	ended, err := c.WaitBatch(waiting, info.ID)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		b.say("interrupted; the batch continues: bullpen batch show %s", info.ID)
		return status(exitInterrupted)
	case waiting.Err() != nil:
		b.say("the batch continues: bullpen batch show %s", info.ID)
		return status(exitFailed)
	default:
		return err
	}
	if err := b.printBatch(ended); err != nil {
		return err
	}
	if ended.OK < ended.Total {
		return status(exitFailed)
	}
	return nil
}

func (r *remote) printBatch(i *job.BatchInfo) error {
	if r.asJSON {
		return r.object(i)
	}
	r.printf("%s", batchText(i, r.now()))
	return nil
}

// batchText describes a batch.
func batchText(i *job.BatchInfo, now time.Time) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-13s %s\n", name, plain(value))
		}
	}
	line("batch", i.ID)
	line("key", i.Key)
	line("state", i.State.String())
	line("jobs", batchCounts(i))
	line("created", whenText(i.Created, now))
	if !i.EndedAt.IsZero() {
		line("ended", whenText(i.EndedAt, now))
	}
	line("first failed", i.FirstFailed)
	line("then", i.ThenID)
	line("on failure", i.FailedID)
	return b.String()
}

func batchCounts(i *job.BatchInfo) string {
	return fmt.Sprintf("%d of %d ended: %s", i.Ended, i.Total, phrase(
		fmt.Sprintf("%d ok", i.OK), countOf(int64(i.Failed), "failed"), countOf(int64(i.Canceled), "canceled"), countOf(int64(i.Lost), "lost")))
}

func newBatchLs(r *remote) *cobra.Command {
	f := job.BatchFilter{Limit: 50, Newest: true}
	cmd := r.command(verb{
		use: "ls", short: "List batches",
		long: "Ls lists the batches, the most recently changed first. Batches that have ended are\n" +
			"kept as long as the outcomes of jobs.",
		args: wants(0, 0, "bullpen batch ls --state WORDS"),
		flags: func(fs flagSet) {
			add(fs, &f.States, "state", "s", "WORDS", "", several(batchStates, job.ParseBatchState), "only batches in these states, separated by commas: "+strings.Join(batchStates, ", "))
			add(fs, &f.Limit, "limit", "n", "N", "50", number(1, math.MaxInt32), "show at most this many batches")
		},
		do: func(ctx context.Context, c *client.Client, _ []string) error { return r.listBatches(ctx, c, f) },
	})
	fixed(cmd, "state", batchStates...)
	return cmd
}

func (r *remote) listBatches(ctx context.Context, c *client.Client, f job.BatchFilter) error {
	t := newTable("ID", "STATE", ">JOBS", ">ENDED", ">FAILED", ">AGE", "KEY")
	left := f.Limit
	for {
		f.Limit = min(left, mostOfPage)
		p, err := c.ListBatches(ctx, f)
		if err != nil {
			return err
		}
		for i := range p.Batches {
			b := &p.Batches[i]
			if r.asJSON {
				if err := r.object(b); err != nil {
					return err
				}
				continue
			}
			failed := cell{text: fmt.Sprint(b.Failed)}
			if b.Failed > 0 {
				failed.tone = toneBad
			}
			t.addCells(cell{text: b.ID}, cell{text: b.State.String()}, cell{text: fmt.Sprint(b.Total)}, cell{text: fmt.Sprint(b.Ended)},
				failed, cell{text: sinceText(b.Created, r.now())}, cell{text: b.Key})
		}
		left -= len(p.Batches)
		if f.After = p.Next; f.After == 0 || left <= 0 {
			break
		}
	}
	switch {
	case len(t.rows) > 0:
		r.printf("%s", t.draw(r.style))
	case !r.asJSON:
		r.say("no batches")
	}
	if f.After != 0 && !r.asJSON {
		r.say("there are more: bullpen batch ls --limit N")
	}
	return nil
}

func newBatchShow(r *remote) *cobra.Command {
	jobs := false
	return r.command(verb{
		use: "show ID", short: "Show the progress of a batch",
		long: "Show prints how many jobs of a batch have ended and how, and the ids of its callbacks.\n" +
			"With --jobs it lists the jobs, in the order in which they were submitted.",
		args: wants(1, 1, "bullpen batch show ID; see: bullpen batch ls"),
		flags: func(f flagSet) {
			f.BoolVar(&jobs, "jobs", false, "list the jobs of the batch")
		},
		do: func(ctx context.Context, c *client.Client, args []string) error {
			if jobs {
				return r.listMembers(ctx, c, args[0])
			}
			info, err := c.GetBatch(ctx, args[0])
			if err != nil {
				return err
			}
			return r.printBatch(info)
		},
	})
}

func (r *remote) listMembers(ctx context.Context, c *client.Client, id string) error {
	var table, page []job.Info
	for info, err := range c.BatchJobs(ctx, id) {
		if err != nil {
			return err
		}
		if page = append(page, info); len(page) == mostOfPage {
			if err := r.rows(&table, page); err != nil {
				return err
			}
			page = page[:0]
		}
	}
	if err := r.rows(&table, page); err != nil {
		return err
	}
	if len(table) > 0 {
		r.printf("%s", jobTable(table, r.now()).draw(r.style))
	}
	return nil
}

func newBatchCancel(r *remote) *cobra.Command {
	return r.command(verb{
		use: "cancel ID", short: "Cancel all jobs of a batch that have not ended",
		long: "Cancel cancels all jobs of a batch that wait or run. The callback still runs, and gets\n" +
			"the number of canceled jobs.",
		args: wants(1, 1, "bullpen batch cancel ID; see: bullpen batch ls"),
		do: func(ctx context.Context, c *client.Client, args []string) error {
			info, err := c.CancelBatch(ctx, args[0])
			if err != nil {
				return err
			}
			return r.printBatch(info)
		},
	})
}
