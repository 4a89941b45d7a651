package queue

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// Config says where the jobs are and what holds for those that say nothing of
// their own. Only Store is needed.
type Config struct {
	// Store is where the jobs are: embedded.At("folder"), Server{URL: "nats://…"}
	// or Memory().
	Store Store
	// Namespace keeps several queues on one server apart: lower-case letters,
	// digits, "-" and "_". Default "main".
	Namespace string
	// Node names this program in the records of attempts. Default: host name
	// and process id.
	Node string
	// Lease is how long a node may keep a job without a sign of life before
	// another gets it. The node gives one three times a lease while the job runs.
	// Default 30 s. All nodes on one store should have the same.
	Lease time.Duration
	// Retry is the policy of jobs that have none.
	Retry Retry
	// KeyWindow is how long after the end of a job its key still stands for it.
	// Default 24 h.
	KeyWindow time.Duration
	// Keep bounds what is stored.
	Keep Keep
	// MaxPayload is the largest payload in bytes; a larger one is refused.
	// MaxResult is the largest result; a larger one is the outcome "output".
	// Default 512 KiB both: a message of the server, 1 MiB where nobody has set
	// it otherwise, has room for either with its evidence.
	MaxPayload, MaxResult int
	// Refuse is asked before a job is stored whether the queue's executors, wherever
	// they are, could run it; an error refuses the job. It must not block. Nil asks
	// nobody. Executors that work on the queue in this program are asked anyway, where
	// they are a [bullpen.Checker]: a job that all of them refuse is not stored.
	Refuse func(queue string, t bullpen.Task) error
	// Logger gets what happens; nil logs nothing.
	Logger *slog.Logger
	// Ended is called once for each job whose end this program has recorded, when
	// that survives a loss of power. It has the job's Meta and not its Payload. It
	// must not block, nor change anything. Nil is called for none and costs nothing.
	Ended func(*Info)
}

// Store is where jobs are kept. Its implementations are [Server], [Memory] and
// queue/embedded.
type Store = engine.Store

// Keep bounds what a queue stores. Jobs are never dropped to keep a bound: the
// next one is refused. Of all else the oldest goes first.
type Keep struct {
	// Jobs is the most bytes of jobs that are not done. Default 4 GiB.
	Jobs int64
	// Outcomes, OutcomeCount and OutcomeAge bound what is kept of results,
	// progress and log lines. Default 1 GiB, 1 000 000 and 24 h. An embedded
	// store holds about 300 bytes of memory for each outcome it keeps. An outcome
	// that goes while its job may still be handed out again lets that job run
	// again: keep those of two leases.
	Outcomes, OutcomeCount int64
	OutcomeAge             time.Duration
	// Dead and DeadAge bound what is kept of dead jobs. Default 1 GiB and 30 days.
	Dead    int64
	DeadAge time.Duration
	// Lines is how many of the last log lines of a job are kept, of at most
	// LineBytes in all. Default 50 and 8 KiB; -1 keeps none.
	Lines, LineBytes int
	// Payloads is the most bytes of a job, payload and metadata together, that is kept
	// with its outcome when it is Done or Canceled, within Outcomes and OutcomeAge: then
	// [Queue.Payload] and [Queue.Retry] have it. Default 8 KiB; -1 keeps none. Dead
	// jobs are kept whole.
	Payloads int
}

// Retry says how often a job may run.
type Retry struct {
	// Attempts is how many attempts may end badly by themselves before the job
	// is dead. Default 5; 1 tries once.
	Attempts int
	// Backoff is the time before the second attempt; it doubles with each to
	// MaxBackoff at most. The real delay is a random part of it, at least half.
	// Default 1 s and 5 min.
	Backoff, MaxBackoff time.Duration
	// Crashes is how many workers may die with the job in hand before it is
	// quarantined: those that it killed (outcomes crashed and memory; it runs again
	// at once after each), and those that ended without having said that it started.
	// Default 3.
	Crashes int
	// Nodes is how many nodes may die with the job in hand before it is
	// quarantined; a node that is killed on purpose counts too. Default 10.
	Nodes int
	// On is which outcomes allow another attempt. Default: failed (unless the
	// handler said that another try is of no use), panic, timeout and protocol.
	// Crashed and memory always do, until Crashes; lost does if the job is
	// declared idempotent; canceled never does.
	On []bullpen.Outcome
}

const (
	defaultLease    = 30 * time.Second
	defaultLines    = 50
	defaultPayload  = 512 << 10
	smallestLease   = 100 * time.Millisecond
	largestAttempts = 1 << 16
)

func (c Config) withDefaults() Config {
	c.Namespace = cmp.Or(c.Namespace, "main")
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.KeyWindow = cmp.Or(c.KeyWindow, 24*time.Hour)
	c.MaxPayload = cmp.Or(c.MaxPayload, defaultPayload)
	c.MaxResult = cmp.Or(c.MaxResult, defaultPayload)
	c.Retry = c.Retry.over(Retry{
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

// over gives r with what it leaves open taken from base.
func (r Retry) over(base Retry) Retry {
	r.Attempts = cmp.Or(r.Attempts, base.Attempts)
	switch {
	case r.Backoff == 0 && r.MaxBackoff == 0:
		r.Backoff, r.MaxBackoff = base.Backoff, base.MaxBackoff
	case r.Backoff == 0:
		r.Backoff = min(base.Backoff, r.MaxBackoff)
	default:
		r.MaxBackoff = max(cmp.Or(r.MaxBackoff, base.MaxBackoff), r.Backoff)
	}
	r.Crashes = cmp.Or(r.Crashes, base.Crashes)
	r.Nodes = cmp.Or(r.Nodes, base.Nodes)
	if r.On == nil {
		r.On = base.On
	}
	return r
}

// isZero tells whether r leaves everything open.
func (r Retry) isZero() bool {
	return r.Attempts == 0 && r.Backoff == 0 && r.MaxBackoff == 0 && r.Crashes == 0 && r.Nodes == 0 && r.On == nil
}

func (r Retry) check(where string) []error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
	}{{"Attempts", r.Attempts}, {"Crashes", r.Crashes}, {"Nodes", r.Nodes}} {
		if n.value < 0 || n.value > largestAttempts {
			errs = append(errs, fmt.Errorf("%s.%s is %d: use a number from 1 to %d, or 0 for the default", where, n.name, n.value, largestAttempts))
		}
	}
	if r.Backoff < 0 || r.MaxBackoff < 0 {
		errs = append(errs, fmt.Errorf("%s: Backoff is %v and MaxBackoff %v: use positive durations, or 0 for the default", where, r.Backoff, r.MaxBackoff))
	}
	if len(r.On) > bullpen.OutcomeCount {
		errs = append(errs, fmt.Errorf("%s.On has %d outcomes, some of them twice: name each once", where, len(r.On)))
	}
	for _, o := range r.On {
		switch {
		case int(o) >= bullpen.OutcomeCount:
			errs = append(errs, fmt.Errorf("%s.On has the unknown %v", where, o))
		case o == bullpen.OK, o == bullpen.Canceled, o == bullpen.Lost:
			errs = append(errs, fmt.Errorf("%s.On has %v, which is not tried again for being listed: leave it out (lost is tried again for jobs that are Idempotent)", where, o))
		}
	}
	return errs
}

// check reports every fault of c at once.
func (c Config) check() error {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("Store is nil: say where the jobs are: embedded.At(folder), queue.Server{URL: …} or queue.Memory()"))
	}
	if c.Namespace != "" {
		errs = append(errs, checkToken("Namespace", c.Namespace))
	}
	if c.Lease != 0 && c.Lease < smallestLease {
		errs = append(errs, fmt.Errorf("Lease is %v: use %v at least, or 0 for %v", c.Lease, smallestLease, defaultLease))
	}
	if c.KeyWindow < 0 {
		errs = append(errs, fmt.Errorf("KeyWindow is %v: use a positive duration, or 0 for 24h", c.KeyWindow))
	}
	if c.MaxPayload < 0 || c.MaxResult < 0 {
		errs = append(errs, fmt.Errorf("MaxPayload is %d and MaxResult %d: use positive numbers of bytes, or 0 for %d", c.MaxPayload, c.MaxResult, defaultPayload))
	}
	k := c.Keep
	if k.Jobs < 0 || k.Outcomes < 0 || k.OutcomeCount < 0 || k.OutcomeAge < 0 || k.Dead < 0 || k.DeadAge < 0 || k.LineBytes < 0 {
		errs = append(errs, fmt.Errorf("Keep has a negative bound in %+v: use positive ones, or 0 for the default", k))
	}
	if k.Lines > mostPairs || k.LineBytes > largestLines {
		errs = append(errs, fmt.Errorf("Keep.Lines is %d and Keep.LineBytes %d: use %d lines and %d bytes at most", k.Lines, k.LineBytes, mostPairs, largestLines))
	}
	errs = append(errs, c.Retry.check("Retry")...)
	return errors.Join(errs...)
}

// largestLines bounds Keep.LineBytes.
const largestLines = 256 << 10

const longestToken = 64

// checkToken says what is wrong with a name that becomes part of a subject.
func checkToken(what, s string) error {
	if s == "" {
		return fmt.Errorf("%s is empty: use lower-case letters, digits, \"-\" and \"_\"", what)
	}
	if len(s) > longestToken {
		return fmt.Errorf("%s has %d characters: use %d at most", what, len(s), longestToken)
	}
	if strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) {
		return fmt.Errorf("%s is %q: use lower-case letters, digits, \"-\" and \"_\" only", what, s)
	}
	return nil
}

// allows tells whether the policy tries again after o.
func (r Retry) allows(o bullpen.Outcome) bool { return slices.Contains(r.On, o) }
