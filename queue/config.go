package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// Config is the config of a queue. Only Store is required.
type Config struct {
	// Store is where jobs are kept: embedded.At("folder"), Server{URL: "nats://…"} or
	// Memory().
	Store Store
	// Namespace separates several queues on one server. It has lower-case letters,
	// digits, "-" and "_". Default "main".
	Namespace string
	// Node is the name of this program in the records of attempts. Default: host name
	// and process id.
	Node string
	// Lease is how long a node may keep a job without renewing its lease before another
	// node gets the job. A node renews three times a lease while the job runs. Default
	// 30 s. All nodes on one store should have the same lease.
	Lease time.Duration
	// Retry is the retry policy of jobs that have none.
	Retry job.Retry
	// KeyWindow is how long a key stays taken after the end of its job. Default 24 h.
	KeyWindow time.Duration
	// Keep bounds what is stored.
	Keep job.Keep
	// MaxPayload is the largest payload in bytes; a larger one is refused. MaxResult is
	// the largest result; a larger one becomes the outcome output. Default 512 KiB
	// each: a NATS server takes messages of 1 MiB by default, which has room for either
	// with its evidence.
	MaxPayload, MaxResult int
	// Refuse is called before a job is stored and reports whether the executors of its
	// queue, wherever they are, could run it; an error refuses the job. It must not
	// block. It may be nil. Executors that work on the queue in this program are asked
	// in any case, if they are a [bullpen.Checker]: a job that all of them refuse is
	// not stored.
	Refuse func(queue string, t bullpen.Task) error
	// Logger receives the events of the queue. If it is nil nothing is logged.
	Logger *slog.Logger
	// Ended is called once for each job whose end this program has recorded, when the
	// record survives a loss of power. The info has Meta and no Payload. Ended must not
	// block, and must not change the info. It may be nil.
	Ended func(*job.Info)
}

// Store is where jobs are kept: [Server], [Memory], or that of package
// [github.com/bullpen-run/bullpen/queue/embedded]. There are no others: what a queue asks
// of a store is no public API.
type Store interface {
	// Open opens the store. [Open] calls it.
	Open(ctx context.Context, o engine.Options) (engine.Engine, error)
}

const (
	defaultLease   = 30 * time.Second
	defaultLines   = 50
	defaultPayload = 512 << 10
	smallestLease  = 100 * time.Millisecond
)

func (c Config) withDefaults() Config {
	c.Namespace = cmp.Or(c.Namespace, "main")
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.KeyWindow = cmp.Or(c.KeyWindow, 24*time.Hour)
	c.MaxPayload = cmp.Or(c.MaxPayload, defaultPayload)
	c.MaxResult = cmp.Or(c.MaxResult, defaultPayload)
	c.Retry = c.Retry.Over(job.Retry{
		Attempts: 5, Backoff: time.Second, MaxBackoff: 5 * time.Minute, Crashes: 3, Nodes: 10,
		On: []bullpen.Outcome{bullpen.Failed, bullpen.Panic, bullpen.Timeout, bullpen.Protocol},
	})
	c.Keep.Jobs = cmp.Or(c.Keep.Jobs, 4<<30)
	c.Keep.Outcomes = cmp.Or(c.Keep.Outcomes, 1<<30)
	c.Keep.OutcomeCount = cmp.Or(c.Keep.OutcomeCount, 1_000_000)
	c.Keep.OutcomeAge = cmp.Or(c.Keep.OutcomeAge, 24*time.Hour)
	c.Keep.Dead = cmp.Or(c.Keep.Dead, 1<<30)
	c.Keep.DeadAge = cmp.Or(c.Keep.DeadAge, 30*24*time.Hour)
	c.Keep.Lines = cmp.Or(c.Keep.Lines, defaultLines)
	c.Keep.LineBytes = cmp.Or(c.Keep.LineBytes, 8<<10)
	c.Keep.Payloads = cmp.Or(c.Keep.Payloads, 8<<10)
	if c.Node == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "node"
		}
		c.Node = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	return c
}

// check reports every fault of c at once.
func (c Config) check() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("Store is nil: use embedded.At(folder), queue.Server{URL: …} or queue.Memory()"))
	}
	if c.Namespace != "" {
		errs = append(errs, job.CheckToken("Namespace", c.Namespace))
	}
	if c.Lease != 0 && c.Lease < smallestLease {
		errs = append(errs, fmt.Errorf("Lease is %v: use at least %v, or 0 for %v", c.Lease, smallestLease, defaultLease))
	}
	if c.KeyWindow < 0 {
		errs = append(errs, fmt.Errorf("KeyWindow is %v: use a positive duration, or 0 for 24h", c.KeyWindow))
	}
	if c.MaxPayload < 0 || c.MaxResult < 0 {
		errs = append(errs, fmt.Errorf("MaxPayload is %d and MaxResult is %d: use positive numbers of bytes, or 0 for %d", c.MaxPayload, c.MaxResult, defaultPayload))
	}
	k := c.Keep
	if k.Jobs < 0 || k.Outcomes < 0 || k.OutcomeCount < 0 || k.OutcomeAge < 0 || k.Dead < 0 || k.DeadAge < 0 || k.LineBytes < 0 {
		errs = append(errs, fmt.Errorf("Keep has a negative limit in %+v: use positive limits, or 0 for the default", k))
	}
	if k.Lines > record.MostPairs || k.LineBytes > largestLines {
		errs = append(errs, fmt.Errorf("Keep.Lines is %d and Keep.LineBytes is %d: use at most %d lines and %d bytes", k.Lines, k.LineBytes, record.MostPairs, largestLines))
	}
	errs = append(errs, c.Retry.Check("Retry")...)
	return errors.Join(errs...)
}

// largestLines bounds Keep.LineBytes.
const largestLines = 256 << 10
