package job

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/schedule"
)

// Missed is the policy for missed ticks: those that a node learns of more than ten
// seconds late, because no node was running. A paused schedule misses no ticks.
type Missed uint8

// The policies for missed ticks.
const (
	// MissedOnce enqueues one job, for the latest of them, and skips the others.
	MissedOnce Missed = iota
	// MissedSkip skips all of them.
	MissedSkip
	// MissedAll enqueues a job for each, oldest first, for the last 1000 at most.
	MissedAll

	MissedRules = iota
)

var missedNames = [MissedRules]string{MissedOnce: "once", MissedSkip: "skip", MissedAll: "all"}

// String returns the word for m.
func (m Missed) String() string {
	if int(m) < len(missedNames) {
		return missedNames[m]
	}
	return fmt.Sprintf("missed(%d)", uint8(m))
}

// ParseMissed returns the policy that word names.
func ParseMissed(word string) (Missed, error) {
	for i, name := range missedNames {
		if name == word {
			return Missed(i), nil
		}
	}
	return 0, fmt.Errorf("unknown rule for missed ticks %q: use once, skip or all", word)
}

// MarshalText returns the word for m.
func (m Missed) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is ParseMissed.
func (m *Missed) UnmarshalText(word []byte) (err error) {
	*m, err = ParseMissed(string(word))
	return err
}

// Overlap is the policy for a tick that comes while the last job of the schedule has
// not ended.
type Overlap uint8

// The policies for overlaps.
const (
	// OverlapAllow enqueues another job.
	OverlapAllow Overlap = iota
	// OverlapForbid skips the tick.
	OverlapForbid

	OverlapRules = iota
)

var overlapNames = [OverlapRules]string{OverlapAllow: "allow", OverlapForbid: "forbid"}

// String returns the word for o.
func (o Overlap) String() string {
	if int(o) < len(overlapNames) {
		return overlapNames[o]
	}
	return fmt.Sprintf("overlap(%d)", uint8(o))
}

// ParseOverlap returns the policy that word names.
func ParseOverlap(word string) (Overlap, error) {
	for i, name := range overlapNames {
		if name == word {
			return Overlap(i), nil
		}
	}
	return 0, fmt.Errorf("unknown rule for overlaps %q: use allow or forbid", word)
}

// MarshalText returns the word for o.
func (o Overlap) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText is ParseOverlap.
func (o *Overlap) UnmarshalText(word []byte) (err error) {
	*o, err = ParseOverlap(string(word))
	return err
}

// Schedule enqueues a job at each of its ticks, once, however many nodes fire it. It
// needs Name, Job and either Cron or Every.
type Schedule struct {
	// Name has up to 128 lower-case letters, digits, "-", "_" and ".", and does not
	// begin with ".".
	Name string
	// Cron has five fields: minute, hour, day of the month, month and day of the week;
	// or is @hourly, @daily, @weekly, @monthly or @yearly. docs/schedules.md has the
	// syntax, and what happens when clocks change.
	Cron string
	// Every is the time between ticks, counted from when the schedule was put with it.
	// At least 100 ms.
	Every time.Duration
	// Zone is the time zone of Cron, such as "Europe/Berlin". Default UTC. The program
	// needs a time zone database: that of the system, or the package time/tzdata.
	Zone string
	// Job is enqueued at each tick. It has no Key, Delay, At or Deadline.
	Job Job
	// Missed is the policy for missed ticks. Default MissedOnce.
	Missed Missed
	// Overlap is the policy for a tick that comes while the last job has not ended.
	// Default OverlapAllow.
	Overlap Overlap
	// Paused stops the ticks. A resumed schedule goes on with its next tick.
	Paused bool
	// Origin says who manages the schedule. The queue stores it and does nothing with
	// it. It is empty or written like the name of a queue.
	Origin string
}

// ScheduleInfo describes a schedule.
type ScheduleInfo struct {
	Schedule
	// Next is the next tick, zero while the schedule is paused. Last is the last tick
	// that was handled, whether it enqueued a job or was skipped.
	Next, Last time.Time
	// Upcoming has the next three ticks; the first of them is Next.
	Upcoming []time.Time
	// LastJob is the id of the job that was enqueued last, LastState the word for its
	// State, empty if its state is no longer known.
	LastJob, LastState string
	// Fired is how many ticks have enqueued a job, Skipped how many have not: missed
	// ticks, and those that came before the last job had ended. Of each gap without a
	// running node at most 10 000 missed ticks are counted.
	Fired, Skipped uint64
	// Err is why the last tick could not enqueue its job; empty if it did.
	Err string
}

// The errors of calls that name a schedule.
var (
	// ErrNoSchedule: there is no such schedule.
	ErrNoSchedule = errors.New("no such schedule")
	// ErrOverlap: the last job of the schedule has not ended, and Overlap is
	// OverlapForbid.
	ErrOverlap = errors.New("the last job of the schedule has not ended")
)

const longestSchedule = 128

// CheckScheduleName reports what is wrong with the name of a schedule.
func CheckScheduleName(name string) error {
	switch {
	case name == "":
		return errors.New("Name is empty: use lower-case letters, digits, \"-\", \"_\" and \".\"")
	case len(name) > longestSchedule:
		return fmt.Errorf("Name has %d characters: use %d at most", len(name), longestSchedule)
	case strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}):
		return fmt.Errorf("Name is %q: use lower-case letters, digits, \"-\", \"_\" and \".\" only", name)
	case name[0] == '.':
		return fmt.Errorf("Name is %q: begin with another character than \".\", which has a meaning in paths", name)
	}
	return nil
}

// Check reports all faults of s at once, except sizes that depend on the config of a
// queue.
func (s *Schedule) Check() error {
	errs := []error{CheckScheduleName(s.Name)}
	switch {
	case s.Cron != "" && s.Every != 0:
		errs = append(errs, errors.New("Cron and Every are both set: set one"))
	case s.Cron == "" && s.Every == 0:
		errs = append(errs, errors.New(`Cron and Every are both empty: set one, such as Cron "30 2 * * *" or Every 5m`))
	case s.Every != 0 && s.Zone != "":
		errs = append(errs, errors.New("Zone is set with Every: leave it out, it applies to Cron only"))
	}
	if s.Cron != "" {
		_, err := schedule.New(s.Cron, 0, s.Zone, time.Time{}, schedule.Zone)
		errs = append(errs, err)
	} else if _, err := schedule.Zone(s.Zone); err != nil {
		errs = append(errs, err)
	}
	if s.Every != 0 {
		_, err := schedule.New("", s.Every, "", time.Unix(0, 0), schedule.Zone)
		errs = append(errs, err)
	}
	if s.Missed >= MissedRules {
		errs = append(errs, fmt.Errorf("Missed is %v: use MissedOnce, MissedSkip or MissedAll", s.Missed))
	}
	if s.Overlap >= OverlapRules {
		errs = append(errs, fmt.Errorf("Overlap is %v: use OverlapAllow or OverlapForbid", s.Overlap))
	}
	if s.Origin != "" {
		errs = append(errs, CheckToken("Origin", s.Origin))
	}
	if j := &s.Job; j.Key != "" || j.Delay != 0 || !j.At.IsZero() || !j.Deadline.IsZero() {
		errs = append(errs, errors.New("Job has a Key, Delay, At or Deadline: leave them out, a schedule enqueues many jobs; "+
			"each tick has one job anyway, Cron says when, and Limits.Timeout bounds how long"))
	} else if err := j.Check(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("schedule %q is not valid: %w", s.Name, err)
	}
	return nil
}

// Upcoming returns the next n ticks after a time; those of Every are counted from it.
// It checks only the rule.
func (s *Schedule) Upcoming(after time.Time, n int) ([]time.Time, error) {
	r, err := schedule.New(s.Cron, s.Every, s.Zone, after, schedule.Zone)
	if err != nil {
		return nil, err
	}
	var all []time.Time
	for t := r.Next(after); len(all) < n && !t.IsZero(); t = r.Next(t) {
		all = append(all, t)
	}
	return all, nil
}
