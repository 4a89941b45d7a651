package job

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
)

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

// LargestAttempts bounds the counts of a Retry.
const LargestAttempts = 1 << 16

// Over gives r with what it leaves open taken from base.
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

// IsZero tells whether r leaves everything open.
func (r Retry) IsZero() bool {
	return r.Attempts == 0 && r.Backoff == 0 && r.MaxBackoff == 0 && r.Crashes == 0 && r.Nodes == 0 && r.On == nil
}

// Check returns the faults of r, which is the field where of something.
func (r Retry) Check(where string) []error {
	var errs []error
	for _, n := range []struct {
		name  string
		value int
	}{{"Attempts", r.Attempts}, {"Crashes", r.Crashes}, {"Nodes", r.Nodes}} {
		if n.value < 0 || n.value > LargestAttempts {
			errs = append(errs, fmt.Errorf("%s.%s is %d: use a number from 1 to %d, or 0 for the default", where, n.name, n.value, LargestAttempts))
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

// Delay returns the time before the attempt after n failed ones: Backoff doubled
// with each, a random half of it taken off, so that jobs which failed together do
// not come back together.
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

// Allows tells whether the policy tries again after o.
func (r Retry) Allows(o bullpen.Outcome) bool { return slices.Contains(r.On, o) }
