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

const submitLong = `Submit gives a job to a pool of the daemon. The payload is the second argument, a
file (@FILE; @@TEXT is the text @TEXT), or standard input (-, or no payload where
standard input is not a terminal).

When the job is stored, its id is printed: it will be done, whatever happens to the
daemon. With --wait the result is printed instead, as it is; a job that ended
badly is told on standard error, and the exit status is 1. Ctrl-C during --wait
leaves the job alone. With --key the same job is taken once, however often it is
submitted.

With --then another task follows when the job has ended well, with its result as
payload; given more than once, one after the other. --wait waits for the last.

With --ephemeral the task bypasses the queue: it is run at once, is not stored, and
is canceled when this program ends. The pool must allow it.

With --bulk each line of standard input is the payload of a job; with --ndjson it
is a JSON object with the job's own payload (or payload_base64), task, key,
group, priority, delay, at, deadline, timeout, memory, cpu, output, attempts, backoff,
max_backoff, crashes, idempotent, compensate, bury and meta, and what it leaves out is
as the flags say. The ids are printed in the order of the lines, an empty line for
each job that was refused.`

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
		use: "submit [flags] POOL [PAYLOAD | @FILE | -]", short: "Give a job to a pool, and perhaps wait for its result",
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
	s.wait.define(f, "wait for the job's end, or so long, and print its result")
	add(f, &j.Name, "task", "t", "NAME", "", word, "name of the task: which of its handlers a worker runs; by default the pool's")
	add(f, &j.Key, "key", "k", "TEXT", "", word, "a name of the job's own: a job with the same key is not taken twice")
	add(f, &j.Group, "group", "", "NAME", "", word, "whose job it is: the groups of a pool have their turns one after the other, each within its limits")
	add(f, &j.Priority, "priority", "", "WORD", "normal", parsePriority, "high, normal or low")
	add(f, &j.Delay, "delay", "", "TIME", "", positive, "start the job after so long")
	add(f, &j.At, "at", "", "TIME", "", moment(now), "start the job at a time: 2027-01-01T03:00Z, or 03:00 (the next one)")
	add(f, &j.Deadline, "deadline", "", "TIME", "", moment(now), "end the job if it has not ended by then; a duration counts from now on")
	add(f, &j.Limits.Timeout, "timeout", "", "TIME", "", positive, "longest run time of an attempt")
	add(f, &j.Limits.Memory, "memory", "", "SIZE", "", size, "most memory of an attempt")
	add(f, &j.Limits.CPU, "cpu", "", "N", "", share, "most processors for an attempt")
	add(f, &s.most, "max-result", "", "SIZE", "", size, "longest result")
	add(f, &j.Retry.Attempts, "attempts", "", "N", "", number(1, math.MaxInt32), "how many attempts may end badly")
	add(f, &j.Retry.Backoff, "backoff", "", "TIME", "", positive, "time before the second attempt; it doubles with each")
	add(f, &j.Retry.MaxBackoff, "max-backoff", "", "TIME", "", positive, "longest time between two attempts")
	add(f, &j.Retry.Crashes, "crashes", "", "N", "", number(1, math.MaxInt32), "how many workers the job may kill before it is put aside")
	f.BoolVar(&j.Idempotent, "idempotent", false, "running it twice does no harm: it is tried again also when its worker was lost")
	add(f, &j.Compensate, "compensate", "", "NAME", "", word, "task that undoes what is left of the job when it ends badly")
	add(f, &j.Bury, "bury", "", "NAME", "", word, "task that is told when the job is dead, with its payload; by default the pool's retry.bury")
	f.StringArrayVar(&s.meta, "meta", nil, "`NAME=VALUE` that travels to the handler, repeatable")
	f.StringArrayVar(&s.then, "then", nil, "`TASK[@POOL]` that follows when the job has ended well, with its result as payload; repeatable, one after the other")
	add(f, &s.parent, "parent", "", "ID", "", word, "job that submits this one and waits for it")
	f.BoolVar(&s.ephemeral, "ephemeral", false, "run it at once, without the queue, and wait for its end")
	f.BoolVar(&s.bulk, "bulk", false, "a job for each line of standard input")
	f.BoolVar(&s.ndjson, "ndjson", false, "with --bulk: each line is a JSON object")
	add(f, &s.retries, "retries", "", "N", "0", retries, "try again, so often, while the daemon is not there or has no room; --bulk has 5 by default")
}

// retries parses a number of retries; none is -1 for the client.
func retries(text string) (int, error) {
	n, err := number(0, 1000)(text)
	if err == nil && n == 0 {
		n = -1
	}
	return n, err
}

func parsePriority(text string) (job.Priority, error) {
	word, err := oneOf("high", "normal", "low")(text)
	if err != nil {
		return 0, err
	}
	return job.ParsePriority(word)
}

// arguments checks arguments and flags that depend on each other.
func (s *submission) arguments(_ *cobra.Command, args []string) error {
	bad := &s.bad
	if s.wait.plain && len(args) > 1 {
		if _, err := positive(args[len(args)-1]); err == nil {
			return fmt.Errorf("%q stands where the payload does: a time to wait is written --wait=%s; as a payload give it on standard input", args[len(args)-1], args[len(args)-1])
		}
	}
	if err := wants(1, 2, "bullpen submit POOL [PAYLOAD | @FILE | -]; see the pools: bullpen pool ls")(nil, args); err != nil {
		return err
	}
	if s.bulk {
		s.checkBulk(len(args) > 1)
	} else if s.ndjson {
		bad.add("--ndjson is for --bulk")
	}
	if !s.job.At.IsZero() && s.job.Delay > 0 {
		bad.add("--at and --delay: use one of them")
	}
	if s.ephemeral && (s.job.Key != "" || s.job.Group != "" || !s.job.At.IsZero() || s.job.Delay > 0 || s.job.Retry.Attempts > 0 || s.job.Compensate != "" || s.job.Bury != "" || s.job.Priority != job.Normal) {
		bad.add("--ephemeral runs a task once and at once: --key, --group, --at, --delay, --priority, --attempts, --compensate and --bury are for jobs of the queue")
	}
	s.job.Meta = map[string]string{}
	for _, m := range s.meta {
		name, value, ok := strings.Cut(m, "=")
		if !ok || name == "" {
			bad.add("--meta %q: use NAME=VALUE", m)
			continue
		}
		s.job.Meta[name] = value
	}
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
		s.bad.add("--parent is for one job that is waited for: leave it out with --bulk")
	}
	if s.job.Key != "" {
		s.bad.add("--key is for one job: with --bulk give each its own, by --ndjson")
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
		s.say("a job with this key is there already: it is %s", ref.State)
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
