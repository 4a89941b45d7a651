package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

// Retry is a retry policy.
type Retry struct {
	// Attempts is how many attempts may fail before the job is dead. Default 5; 1 does
	// not retry.
	Attempts int
	// Backoff is the delay before the second attempt. It doubles with each attempt, up to
	// MaxBackoff. The actual delay is random, between half of it and all of it.
	// Default 1 s and 5 min.
	Backoff, MaxBackoff time.Duration
	// Crashes is how many workers may die while they have the job before it is
	// quarantined: those that died while it ran (outcomes crashed and memory; it runs
	// again at once after each), and those that died without having reported that it
	// started. Default 3.
	Crashes int
	// Nodes is how many nodes may die while they have the job before it is quarantined.
	// A node that is killed on purpose counts too. Default 10.
	Nodes int
	// On is the outcomes after which there is another attempt. Default: failed (unless
	// the handler said that retrying would not help), panic, timeout and protocol.
	// After crashed and memory there always is one, up to Crashes; after lost, if the
	// job is Idempotent; after canceled, never.
	On []bullpen.Outcome
}

// largestAttempts bounds the counts of a Retry.
const largestAttempts = 1 << 16

// Over returns r with its zero fields taken from base.
func (r Retry) Over(base Retry) Retry {
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

// IsZero reports whether all fields of r are zero.
func (r Retry) IsZero() bool {
	return r.Attempts == 0 && r.Backoff == 0 && r.MaxBackoff == 0 && r.Crashes == 0 && r.Nodes == 0 && r.On == nil
}

// Check returns the faults of r. where is the name of the field that has it.
func (r Retry) Check(where string) []error {
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
			errs = append(errs, fmt.Errorf("%s.On has %v, which On does not control: leave it out (a job that is Idempotent is retried after lost)", where, o))
		}
	}
	return errs
}

// Delay returns the delay before the attempt that follows n failed ones. random, from 0
// to 1, takes off up to half of it, so that jobs which failed together do not run again
// together.
func (r Retry) Delay(n int, random float64) time.Duration {
	d := r.Backoff
	for range n - 1 {
		if d >= r.MaxBackoff/2 {
			d = r.MaxBackoff
			break
		}
		d *= 2
	}
	d = min(d, r.MaxBackoff)
	return d - time.Duration(float64(d)/2*random)
}

// Allows reports whether On has o.
func (r Retry) Allows(o bullpen.Outcome) bool { return slices.Contains(r.On, o) }
