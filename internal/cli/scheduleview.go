package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// ruleText returns the rule of a schedule.
func ruleText(s *job.ScheduleInfo) string {
	switch {
	case s.Every > 0:
		return "every " + s.Every.String()
	case s.Zone != "":
		return s.Cron + " " + s.Zone
	}
	return s.Cron
}

// upcomingText returns the next ticks, in the zone of the schedule.
func upcomingText(s *job.ScheduleInfo) string {
	form := "2006-01-02 15:04 -07:00"
	if s.Every > 0 {
		form = "2006-01-02 15:04:05Z"
	}
	var all []string
	for _, t := range s.Upcoming {
		all = append(all, t.Format(form))
	}
	if len(all) == 0 {
		return "never"
	}
	return strings.Join(all, ", then ")
}

// toneOfWord returns the color of a state, by its word.
func toneOfWord(word string) tone {
	state, err := job.ParseState(word)
	if err != nil {
		return toneFaint
	}
	return toneOf(state)
}

func scheduleTable(all []job.ScheduleInfo, now time.Time) *table {
	t := newTable("NAME", "POOL", "RULE", "NEXT", ">LAST", "LAST JOB", ">FIRED", ">SKIPPED", "NOTE")
	for i := range all {
		s := &all[i]
		next := cell{text: sinceText(s.Next, now)}
		if s.Paused {
			next = cell{"paused", toneWarn}
		}
		t.addCells(
			cell{text: s.Name}, cell{text: s.Job.Queue}, cell{text: ruleText(s)}, next, cell{text: sinceText(s.Last, now)},
			cell{s.LastState, toneOfWord(s.LastState)}, cell{text: fmt.Sprint(s.Fired)}, cell{text: moreThan(s.Skipped)}, cell{s.Err, toneBad},
		)
	}
	return t
}

// scheduleText returns all information about a schedule, for display.
func scheduleText(s *job.ScheduleInfo, now time.Time, style style) string {
	var p pairs
	p.add("schedule", s.Name)
	p.add("pool", s.Job.Queue)
	p.add("rule", ruleText(s))
	if s.Paused {
		p.addTone("state", "paused", toneWarn)
	} else {
		p.add("next", upcomingText(s))
	}
	p.add("missed ticks", s.Missed.String())
	p.add("overlap", s.Overlap.String())
	p.add("origin", s.Origin)
	p.add("last tick", whenText(s.Last, now))
	last := s.LastJob
	if s.LastState != "" {
		last += " (" + s.LastState + ")"
	}
	p.addTone("last job", last, toneOfWord(s.LastState))
	p.add("fired", fmt.Sprint(s.Fired))
	p.add("skipped", moreThan(s.Skipped))
	p.addTone("error", s.Err, toneBad)
	j := &s.Job
	p.add("task", j.Name)
	if j.Priority != job.Normal {
		p.add("priority", j.Priority.String())
	}
	p.add("timeout", spanText(j.Limits.Timeout))
	p.add("memory", sizeOf(j.Limits.Memory))
	p.add("attempts", moreThan(j.Retry.Attempts))
	p.add("compensate", j.Compensate)
	p.add("bury", j.Bury)
	p.add("group", j.Group)
	for _, name := range slices.Sorted(maps.Keys(j.Meta)) {
		p.add("meta "+name, j.Meta[name])
	}
	if readable(j.Payload) {
		p.add("payload", shorten(string(j.Payload), 200))
	} else {
		p.add("payload", sizeOf(int64(len(j.Payload)))+" of binary data")
	}
	return p.draw(style)
}
