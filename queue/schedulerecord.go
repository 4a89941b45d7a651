package queue

import (
	"fmt"
	"strings"
	"time"
)

// A schedule is two messages of state: what it is, on set.cron.<token>, which is
// written when people change it; and how far it is, on set.tick.<token>, which is
// written at each tick and is small. The token is the name, with "=" for ".".

const (
	cronSubjects = "set.cron."
	tickSubjects = "set.tick."
)

func scheduleToken(name string) string { return strings.ReplaceAll(name, ".", "=") }
func scheduleName(token string) string { return strings.ReplaceAll(token, "=", ".") }

// scheduleRecord is a schedule as it lies in the store.
type scheduleRecord struct {
	Schedule

	// since is from when its ticks count: since the rule was put, or resumed.
	since time.Time
	// anchor is from when Every counts.
	anchor time.Time
	// job is the record of Job.
	job []byte
}

const (
	cronName = iota + 1
	cronText
	cronEvery
	cronZone
	cronQueue
	cronPriority
	cronMissed
	cronOverlap
	cronPaused
	cronOrigin
	cronSince
	cronAnchor
	cronJob
)

// scheduleJob stands for the id in the record of a schedule's job.
const scheduleJob = "schedule"

func (r *scheduleRecord) encode() []byte {
	job := (&stored{id: scheduleJob, job: r.Job}).encode()
	w := newRecord(len(job) + len(r.Name) + len(r.Cron) + len(r.Zone) + 96)
	w.text(cronName, r.Name)
	w.text(cronText, r.Cron)
	w.span(cronEvery, r.Every)
	w.text(cronZone, r.Zone)
	w.text(cronQueue, r.Job.Queue)
	w.number(cronPriority, uint64(r.Job.Priority))
	w.number(cronMissed, uint64(r.Missed))
	w.number(cronOverlap, uint64(r.Overlap))
	w.flag(cronPaused, r.Paused)
	w.text(cronOrigin, r.Origin)
	w.moment(cronSince, r.since)
	w.moment(cronAnchor, r.anchor)
	w.bytes(cronJob, job)
	return w.seal(cronSubjects + scheduleToken(r.Name))
}

// decodeSchedule reads the record of the schedule with a name.
func decodeSchedule(name string, b []byte) (*scheduleRecord, error) {
	r := &scheduleRecord{}
	err := readRecord(cronSubjects+scheduleToken(name), b, r.read)
	if err == nil && r.Name != name {
		err = fmt.Errorf("%w: it is of %q", errCorrupt, r.Name)
	}
	var s *stored
	if err == nil {
		s, err = decodeJob(scheduleJob, r.job)
	}
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", name, err)
	}
	queue, priority := r.Job.Queue, r.Job.Priority
	r.Job = s.job
	r.Job.Queue, r.Job.Priority = queue, priority
	return r, nil
}

func (r *scheduleRecord) read(f field) error {
	switch f.tag {
	case cronName:
		r.Name = string(f.v)
	case cronText:
		r.Cron = string(f.v)
	case cronEvery:
		return f.into(&r.Every)
	case cronZone:
		r.Zone = string(f.v)
	case cronQueue:
		r.Job.Queue = string(f.v)
	case cronOrigin:
		r.Origin = string(f.v)
	case cronPaused:
		return f.into(&r.Paused)
	case cronSince:
		return f.into(&r.since)
	case cronAnchor:
		return f.into(&r.anchor)
	case cronJob:
		r.job = f.v
	case cronPriority, cronMissed, cronOverlap:
		return r.readSmall(f)
	}
	return nil
}

func (r *scheduleRecord) readSmall(f field) error {
	v, err := f.number()
	if err != nil {
		return err
	}
	most := map[uint64]uint64{cronPriority: priorities, cronMissed: missedRules, cronOverlap: overlapRules}[f.tag]
	if v >= most {
		return fmt.Errorf("%w: field %d is %d", errCorrupt, f.tag, v)
	}
	switch f.tag {
	case cronPriority:
		r.Job.Priority = Priority(v)
	case cronMissed:
		r.Missed = Missed(v)
	case cronOverlap:
		r.Overlap = Overlap(v)
	}
	return nil
}

// tickRecord says how far a schedule is.
type tickRecord struct {
	// since is that of the schedule's record for which last holds.
	since time.Time
	// last is the last tick that was dealt with.
	last time.Time
	// job is the id of the last one that was enqueued, also by hand.
	job string
	// node has dealt with last.
	node           string
	fired, skipped uint64
	err            string
}

const (
	tickSince = iota + 1
	tickLast
	tickJob
	tickNode
	tickFired
	tickSkipped
	tickErr
)

func (r *tickRecord) encode(name string) []byte {
	w := newRecord(96 + len(r.node) + len(r.err))
	w.moment(tickSince, r.since)
	w.moment(tickLast, r.last)
	w.text(tickJob, r.job)
	w.text(tickNode, r.node)
	w.number(tickFired, r.fired)
	w.number(tickSkipped, r.skipped)
	w.text(tickErr, cut(r.err, longestError))
	return w.seal(tickSubjects + scheduleToken(name))
}

func decodeTick(name string, b []byte) (tickRecord, error) {
	var r tickRecord
	err := readRecord(tickSubjects+scheduleToken(name), b, func(f field) error {
		switch f.tag {
		case tickSince:
			return f.into(&r.since)
		case tickLast:
			return f.into(&r.last)
		case tickJob:
			r.job = string(f.v)
		case tickNode:
			r.node = string(f.v)
		case tickFired:
			return f.into(&r.fired)
		case tickSkipped:
			return f.into(&r.skipped)
		case tickErr:
			r.err = string(f.v)
		}
		return nil
	})
	if err != nil {
		return tickRecord{}, fmt.Errorf("last tick of schedule %q: %w", name, err)
	}
	return r, nil
}

// after is from when the ticks of a schedule whose ticks count since a moment are
// still to be dealt with.
func (r *tickRecord) after(since time.Time) time.Time {
	if r.since.Equal(since) && r.last.After(since) {
		return r.last
	}
	return since
}
