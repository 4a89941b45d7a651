package job

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/internal/schedule"
)

// Missed says what becomes of ticks that passed while no node ran: those of which
// a node hears more than ten seconds late. While a schedule is paused nothing is
// missed.
type Missed uint8

// The rules for missed ticks.
const (
	// MissedOnce fires the latest of them at once, and skips the others.
	MissedOnce Missed = iota
	// MissedSkip fires none.
	MissedSkip
	// MissedAll fires each, oldest first, but the last 1000 at most.
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

// ParseMissed returns the rule that word names.
func ParseMissed(word string) (Missed, error) {
	for i, name := range missedNames {
		if name == word {
			return Missed(i), nil
		}
	}
	return 0, fmt.Errorf("unknown rule for missed ticks %q: use once, skip or all", word)
}

// Overlap says what becomes of a tick while the last job of its schedule has not
// ended.
type Overlap uint8

// The rules for overlaps.
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

// ParseOverlap returns the rule that word names.
func ParseOverlap(word string) (Overlap, error) {
	for i, name := range overlapNames {
		if name == word {
			return Overlap(i), nil
		}
	}
	return 0, fmt.Errorf("unknown rule for overlaps %q: use allow or forbid", word)
}

// Schedule is a rule that enqueues a job at each of its ticks, once, however many
// nodes fire it. Name, Job and one of Cron and Every are needed.
type Schedule struct {
	// Name is of up to 128 lower-case letters, digits, "-", "_" and "."; not "." first.
	Name string
	// Cron has five fields: minute, hour, day of the month, month and day of the
	// week; or is @hourly, @daily, @weekly, @monthly or @yearly. See
	// docs/schedules.md, also for the nights on which clocks are changed.
	Cron string
	// Every is the time from tick to tick, counted from when the schedule was put
	// with it; 100 ms at least.
	Every time.Duration
	// Zone is the time zone of Cron, such as "Europe/Berlin". Default UTC. The
	// program needs the zones: of the system, or by importing time/tzdata.
	Zone string
	// Job is enqueued at each tick. It has no Key, Delay, At and Deadline: these
	// are of one job.
	Job Job
	// Missed is what becomes of ticks that nobody was there for. Default MissedOnce.
	Missed Missed
	// Overlap is what becomes of a tick while the last job has not ended. Default
	// OverlapAllow.
	Overlap Overlap
	// Paused schedules have no ticks. Resuming goes on with the next one.
	Paused bool
	// Origin says who manages the schedule, for people and programs; the queue
	// only keeps it. Empty, or of the letters of a queue's name.
	Origin string
}

// ScheduleInfo is what there is to know of a schedule.
type ScheduleInfo struct {
	Schedule
	// Next is the next tick, zero while the schedule is paused; Last the last one
	// that was dealt with, fired or skipped.
	Next, Last time.Time
	// Upcoming are the next three ticks, Next the first of them.
	Upcoming []time.Time
	// LastJob is the id of the job that was enqueued last, and LastState the word
	// for its State; empty where nothing is known of it any more.
	LastJob, LastState string
	// Fired counts the ticks that have enqueued a job, Skipped those that have
	// not: missed ones, and those that found the last job still there. Of one gap
	// without any node 10 000 missed ticks are counted at most.
	Fired, Skipped uint64
	// Err says why the last tick could not enqueue its job, empty when it has.
	Err string
}

// The errors of calls that name a schedule.
var (
	// ErrNoSchedule says that there is no such schedule.
	ErrNoSchedule = errors.New("no such schedule")
	// ErrOverlap says that the last job of the schedule has not ended, and that its
	// Overlap forbids another.
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
		return fmt.Errorf("Name is %q: begin with another character than \".\", so that it can stand in a path", name)
	}
	return nil
}

// Check reports every fault of s at once, but for sizes that a queue bounds by its
// config.
func (s *Schedule) Check() error {
	errs := []error{CheckScheduleName(s.Name)}
	switch {
	case s.Cron != "" && s.Every != 0:
		errs = append(errs, errors.New("Cron and Every are both set: set one"))
	case s.Cron == "" && s.Every == 0:
		errs = append(errs, errors.New(`Cron and Every are both empty: set one, such as Cron "30 2 * * *" or Every 5m`))
	case s.Every != 0 && s.Zone != "":
		errs = append(errs, errors.New("Zone is set with Every: leave it out, only Cron knows zones"))
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

// Upcoming gives the next n ticks of s after a moment; those of Every count from
// there. It checks the rule alone.
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
