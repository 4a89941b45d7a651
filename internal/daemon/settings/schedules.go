package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// scheduleTable has all keys of a schedule.
var scheduleTable = newTable(scheduleKeys())

// mostSchedules is far more than a hand-written file has.
const mostSchedules = 10_000

const leastEvery = 100 * time.Millisecond

// metadata is a mapping of names to values.
var metadata = kind[map[string]string]{
	name: "mapping", use: "use names with values, such as {tenant: acme}", parse: func(v value) (map[string]string, error) {
		if v.shape != isMapping {
			return nil, errUse
		}
		all := make(map[string]string, len(v.pairs))
		for _, p := range v.pairs {
			if p.value.shape != isScalar || p.name == "" {
				return nil, fmt.Errorf("%s has %s: use a text", quote(p.name), shapeWords[p.value.shape])
			}
			all[p.name] = p.value.text
		}
		return all, nil
	},
}

func scheduleKeys() []key[job.Schedule] {
	type s = job.Schedule
	return []key[s]{
		row("pool", token, "(none)", "pool of the jobs; required", func(s *s) *string { return &s.Job.Queue }),
		row("cron", text, "(none)", "when to run: minute, hour, day of the month, month and day of the week, such as \"30 2 * * *\"; or @hourly, @daily, @weekly, @monthly, @yearly", func(s *s) *string { return &s.Cron }),
		row("every", span(leastEvery), "(none)", "time between two ticks, counted from when the schedule was created; instead of cron", func(s *s) *time.Duration { return &s.Every }),
		row("zone", text, "(UTC)", "time zone of cron, such as Europe/Berlin", func(s *s) *string { return &s.Zone }),
		row("missed", parsed([]string{"once", "skip", "all"}, job.ParseMissed), "once", "what to do with ticks that passed while no daemon ran: run the latest once, skip them, or run all", func(s *s) *job.Missed { return &s.Missed }),
		row("overlap", parsed([]string{"allow", "forbid"}, job.ParseOverlap), "allow", "whether a tick enqueues a job while the last one has not ended", func(s *s) *job.Overlap { return &s.Overlap }),
		row("payload", bytesKind, "(none)", "payload of the jobs", func(s *s) *[]byte { return &s.Job.Payload }),
		row("task", scalar("text", "use a text of at most 256 bytes", func(s string) (string, bool) { return s, s != "" && len(s) <= 256 }),
			"(that of the pool)", "name of their task", func(s *s) *string { return &s.Job.Name }),
		row("meta", metadata, "(none)", "names with values, passed to the handler", func(s *s) *map[string]string { return &s.Job.Meta }),
		row("priority", parsed([]string{"high", "normal", "low"}, job.ParsePriority), "normal", "their priority", func(s *s) *job.Priority { return &s.Job.Priority }),
		row("timeout", span(time.Millisecond), "(that of the pool)", "run-time limit of an attempt", func(s *s) *time.Duration { return &s.Job.Limits.Timeout }),
		row("attempts", count(1, mostAttempts), "(that of the pool)", "number of failed attempts after which a job is dead", func(s *s) *int { return &s.Job.Retry.Attempts }),
		row("idempotent", flag, "false", "running a job twice does no harm", func(s *s) *bool { return &s.Job.Idempotent }),
		row("compensate", text, "(none)", "task that undoes what a failed job may have done", func(s *s) *string { return &s.Job.Compensate }),
		row("bury", text, "(that of the pool)", "task to run for each job that dies", func(s *s) *string { return &s.Job.Bury }),
		row("group", text, "(none)", "group of the jobs; its limits apply, and groups take turns", func(s *s) *string { return &s.Job.Group }),
	}
}

// bytesKind is any text.
var bytesKind = kind[[]byte]{name: "text", use: "use a text", parse: func(v value) ([]byte, error) {
	if v.shape != isScalar {
		return nil, errUse
	}
	return []byte(v.text), nil
}}

// schedules reads the mapping of schedules.
func (l *loader) schedules(v value) {
	switch v.shape {
	case isNull:
		return
	case isScalar, isList:
		l.journal.add(v.position, "schedules", "it is %s: use names of schedules with their settings", shapeWords[v.shape])
		return
	case isMapping:
		l.settings.SchedulesGiven = true
	}
	for i, p := range v.pairs {
		if i == mostSchedules {
			l.journal.add(p.position, "schedules", "there are %d: use at most %d, and add more through the API", len(v.pairs), mostSchedules)
			return
		}
		at := join("schedules", p.name)
		l.positions[at] = p.position
		s := job.Schedule{Name: p.name, Origin: OriginConfig}
		if err := scheduleTable.defaults(&s); err != nil {
			l.journal.add(p.position, at, "%v", err)
			continue
		}
		if p.value.shape != isNull {
			walk(l, scheduleTable, &s, p.value, at+".", "")
		}
		l.settings.Schedules[p.name] = s
	}
}

// OriginConfig is the origin of schedules from the configuration.
const OriginConfig = "config"

// checkSchedules finds faults in schedules whose values are valid by themselves.
func (l *loader) checkSchedules() {
	s := l.settings
	for _, name := range slices.Sorted(maps.Keys(s.Schedules)) {
		one, at := s.Schedules[name], join("schedules", name)
		_, there := s.Pools[one.Job.Queue]
		switch {
		case l.given(at+".pool") && one.Job.Queue == "": // the given pool is not a valid name, which was already reported
		case one.Job.Queue == "":
			l.fault(at, "it has no pool: name the pool of its jobs, such as pool: reports")
		case !there:
			l.fault(at+".pool", "%s is not a pool of this configuration: add it to \"pools\", without a command if other daemons run its jobs", quote(one.Job.Queue))
		}
		if one.Cron == "" && one.Every == 0 && (l.given(at+".cron") || l.given(at+".every")) {
			one.Every, one.Zone = leastEvery, "" // the given time is not valid, which was already reported
		}
		for _, leaf := range leaves(s.Queue.CheckSchedule(&one)) {
			l.fault(at, "%s", strings.ReplaceAll(leaf.Error(), "\n", " "))
		}
	}
}

// diffSchedules lists the paths of the schedules that differ.
func (s *Settings) diffSchedules(old *Settings) []string {
	names := make(map[string]bool)
	for _, all := range []map[string]job.Schedule{s.Schedules, old.Schedules} {
		for name := range all {
			names[name] = true
		}
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, here := s.Schedules[name]
		b, there := old.Schedules[name]
		at := "schedules." + name
		if here != there {
			paths = append(paths, at)
			continue
		}
		for _, k := range scheduleTable.keys {
			if !k.same(&a, &b) {
				paths = append(paths, at+"."+k.path)
			}
		}
	}
	return paths
}
