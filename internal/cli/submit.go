package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

const submitLong = `Submit submits a job to a pool of the daemon. The payload is the second argument, a
file (@FILE; write @@TEXT for the text @TEXT), or standard input (with -, or without
a payload if standard input is not a terminal).

Submit prints the id of the job once the job is stored: from then on no crash of the
daemon loses it. With --wait it prints the result instead, unchanged; if the job ends
badly it prints why to standard error and exits with status 1. Ctrl-C during --wait
does not cancel the job. With --key a job is enqueued only once, however often it is
submitted.

With --then another task runs when the job has ended well, with its result as payload.
Repeat --then for further tasks, one after the other. --wait waits for the last one.

With --ephemeral the task bypasses the queue: it runs at once, is not stored, and is
canceled when this program ends. The pool must allow ephemeral tasks.

With --bulk each line of standard input is the payload of a job. With --ndjson a line
is a JSON object with the payload (or payload_base64), task, key, group, priority,
delay, at, deadline, timeout, memory, cpu, output, attempts, backoff, max_backoff,
crashes, idempotent, compensate, bury and meta of the job; the flags set what it leaves
out. Submit prints the ids in the order of the lines, with an empty line for each job
that was refused.`

const submitExample = `  bullpen submit thumbnails @photo.jpg --wait > small.jpg
  bullpen submit reports '{"kind":"monthly"}' --at 2027-01-01T03:00Z --key 2026-12
  bullpen submit pages https://example.org --task fetch --then extract --then index@search
  id=$(bullpen submit reports '{"kind":"daily"}') && bullpen logs -f "$id"
  bullpen submit mails --bulk --task welcome < addresses.txt`

// submission has the flags of bullpen submit.
type submission struct {
	*remote
	job         job.Job
	parent      string
	most        int64
	meta        []string
	wait        waitFlag
	ephemeral   bool
	bulk        bool
	ndjson      bool
	then        []string
	payload     string // the argument
	havePayload bool
}

func newSubmit(r *remote) *cobra.Command {
	r.retries = 0 // not given
	s := &submission{remote: r}
	cmd := r.command(verb{
		use: "submit [flags] POOL [PAYLOAD | @FILE | -]", short: "Submit a job to a pool",
		long: submitLong, example: submitExample,
		args:  s.arguments,
		flags: s.define, complete: r.completePool,
		do: func(ctx context.Context, c *client.Client, args []string) error {
			if len(args) > 1 {
				s.payload, s.havePayload = args[1], true
			}
			return s.submit(ctx, c, args[0])
		},
	})
	s.wait.optional(cmd)
	fixed(cmd, "priority", "high", "normal", "low")
	return cmd
}

func (s *submission) define(f flagSet) {
	now := s.now()
	j := &s.job
	s.wait.define(f, "wait until the job has ended, or at most this long, and print its result")
	jobFlags(f, j, &s.meta)
	add(f, &j.Key, "key", "k", "TEXT", "", word, "a unique name for the job: a job with the same key is not enqueued twice")
	add(f, &j.Delay, "delay", "", "TIME", "", positive, "start the job after this time")
	add(f, &j.At, "at", "", "TIME", "", moment(now), "start the job at a time: 2027-01-01T03:00Z, or 03:00 (the next one)")
	add(f, &j.Deadline, "deadline", "", "TIME", "", moment(now), "end the job if it has not ended by then; a duration counts from now")
	add(f, &s.most, "max-result", "", "SIZE", "", size, "maximum size of the result")
	f.StringArrayVar(&s.then, "then", nil, "run `TASK[@POOL]` when the job has ended well, with its result as payload; repeatable, one after the other")
	add(f, &s.parent, "parent", "", "ID", "", word, "id of the job that submits this one and waits for it")
	f.BoolVar(&s.ephemeral, "ephemeral", false, "run the task at once, without the queue, and wait until it has ended")
	f.BoolVar(&s.bulk, "bulk", false, "submit a job for each line of standard input")
	f.BoolVar(&s.ndjson, "ndjson", false, "with --bulk: each line is a JSON object")
	add(f, &s.retries, "retries", "", "N", "0", retries, "retry up to this many times while the daemon is unreachable or has no room; default 5 with --bulk")
}

// retries parses a number of retries; none is -1 for the client.
func retries(text string) (int, error) {
	n, err := number(0, 1000)(text)
	if err == nil && n == 0 {
		n = -1
	}
	return n, err
}

// arguments checks arguments and flags that depend on each other.
func (s *submission) arguments(_ *cobra.Command, args []string) error {
	bad := &s.bad
	if s.wait.plain && len(args) > 1 {
		if _, err := positive(args[len(args)-1]); err == nil {
			return fmt.Errorf("%q stands where the payload belongs: write a time to wait as --wait=%s; to submit it as the payload, use standard input", args[len(args)-1], args[len(args)-1])
		}
	}
	if err := wants(1, 2, "bullpen submit POOL [PAYLOAD | @FILE | -]; see the pools: bullpen pool ls")(nil, args); err != nil {
		return err
	}
	if s.bulk {
		s.checkBulk(len(args) > 1)
	} else if s.ndjson {
		bad.add("--ndjson needs --bulk")
	}
	if !s.job.At.IsZero() && s.job.Delay > 0 {
		bad.add("--at and --delay exclude each other")
	}
	if s.ephemeral && (s.job.Key != "" || s.job.Group != "" || !s.job.At.IsZero() || s.job.Delay > 0 || s.job.Retry.Attempts > 0 || s.job.Compensate != "" || s.job.Bury != "" || s.job.Priority != job.Normal) {
		bad.add("--ephemeral runs a task once and at once: leave out --key, --group, --at, --delay, --priority, --attempts, --compensate and --bury, which are for jobs of the queue")
	}
	s.job.Meta = readMeta(s.meta, bad)
	for _, text := range s.then {
		l, err := linkOf(text)
		if err != nil {
			bad.add("--then %q: %v", text, err)
		}
		s.job.Then = append(s.job.Then, l)
	}
	if len(s.then) > 0 && (s.ephemeral || s.parent != "") {
		bad.add("--then is for jobs of the queue: leave out --ephemeral and --parent")
	}
	s.job.Limits.Output = int(min(s.most, math.MaxInt32))
	if s.retries == 0 {
		s.retries = -1
		if s.bulk {
			s.retries = bulkRetries
		}
	}
	return nil
}

func (s *submission) checkBulk(payload bool) {
	if payload {
		s.bad.add("--bulk reads payloads from standard input: give none as an argument")
	}
	if s.wait.limit != 0 || s.ephemeral {
		s.bad.add("--bulk does not wait: leave out --wait and --ephemeral, and use bullpen get ID --wait")
	}
	if s.parent != "" {
		s.bad.add("--parent is for a single job: leave it out with --bulk")
	}
	if s.job.Key != "" {
		s.bad.add("--key is for a single job: with --bulk, use --ndjson to give each job its own key")
	}
}

func (s *submission) submit(ctx context.Context, c *client.Client, pool string) error {
	if s.bulk {
		return s.submitAll(ctx, c, pool)
	}
	j := s.job
	j.Queue = pool
	var err error
	if j.Payload, err = s.read(); err != nil {
		return err
	}
	if s.parent != "" {
		ctx = client.WithParent(ctx, bullpen.Task{ID: s.parent})
	}
	if s.ephemeral {
		return s.runOnce(ctx, c, pool, j)
	}
	enqueue := c.Enqueue
	if then := j.Then; len(then) > 0 {
		enqueue = func(ctx context.Context, first job.Job) (job.Ref, error) {
			first.Then = nil
			return c.EnqueueChain(ctx, append([]job.Job{first}, then...)...)
		}
	}
	ref, err := enqueue(ctx, j)
	if err != nil {
		return ofPool(pool, err)
	}
	if ref.Existing {
		s.say("a job with this key exists already: it is %s", ref.State)
	}
	if s.wait.limit != 0 {
		if len(j.Then) > 0 {
			return s.awaitBy(ctx, (*client.Client).WaitChain, ref.ID, s.wait.limit, func(result bullpen.Result) error {
				id, err := lastOf(ctx, c, ref.ID)
				if err != nil {
					return err
				}
				return s.result(ctx, c, id, result)
			})
		}
		return s.await(ctx, ref.ID, s.wait.limit, func(result bullpen.Result) error { return s.result(ctx, c, ref.ID, result) })
	}
	if s.asJSON {
		return s.object(ref)
	}
	s.printf("%s\n", ref.ID)
	return nil
}

// read reads the payload from the source that the arguments name.
func (s *submission) read() ([]byte, error) {
	switch {
	case !s.havePayload:
		if isFileTerminal(s.stdin) {
			return nil, nil
		}
		return s.readAll(s.stdin, "standard input")
	case s.payload == "-":
		return s.readAll(s.stdin, "standard input")
	case strings.HasPrefix(s.payload, "@@"):
		return []byte(s.payload[1:]), nil
	case strings.HasPrefix(s.payload, "@"):
		file, err := os.Open(s.payload[1:])
		if err != nil {
			return nil, usageError{err}
		}
		defer file.Close()
		return s.readAll(file, s.payload[1:])
	}
	return []byte(s.payload), nil
}

// bulkRetries is how often a batch of --bulk is retried.
const bulkRetries = 5

// mostPayload bounds what is read for one job: no daemon accepts more.
const mostPayload = 1 << 30

func (s *submission) readAll(from io.Reader, name string) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, mostPayload+1))
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", name, err)}
	}
	if len(content) > mostPayload {
		return nil, usageError{fmt.Errorf("%s has more than 1 GiB: put the data elsewhere and give its name as the payload", name)}
	}
	return content, nil
}
