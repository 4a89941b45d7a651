package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// A schedule is stored as two messages of state. Its definition, on set.cron.<token>, is
// written when a user changes it. Its progress, on set.tick.<token>, is small and is
// written at each tick. The token is the name, with "=" for ".".

// The prefixes of these subjects, before the token.
const (
	CronSubjects = "set.cron."
	TickSubjects = "set.tick."
)

// ScheduleToken returns the token for the name of a schedule in subjects.
func ScheduleToken(name string) string { return strings.ReplaceAll(name, ".", "=") }

// ScheduleName returns the name that a token stands for.
func ScheduleName(token string) string { return strings.ReplaceAll(token, "=", ".") }

// Schedule is the stored form of a schedule.
type Schedule struct {
	job.Schedule

	// Since is when its ticks start to count: when the rule was put or resumed.
	Since time.Time
	// Anchor is the moment from which Every counts.
	Anchor time.Time
	// JobRecord is the record of Job.
	JobRecord []byte
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

// ScheduleJob replaces the id in the record of a schedule's job.
const ScheduleJob = "schedule"

// Encode returns the record of r.
func (r *Schedule) Encode() []byte {
	job := (&Job{ID: ScheduleJob, Job: r.Job}).Encode()
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
	w.moment(cronSince, r.Since)
	w.moment(cronAnchor, r.Anchor)
	w.bytes(cronJob, job)
	return w.seal(CronSubjects + ScheduleToken(r.Name))
}

// DecodeSchedule reads the record of the schedule with a name.
func DecodeSchedule(name string, b []byte) (*Schedule, error) {
	r := &Schedule{}
	err := readRecord(CronSubjects+ScheduleToken(name), b, r.read)
	if err == nil && r.Name != name {
		err = fmt.Errorf("%w: it is of %q", job.ErrDamaged, r.Name)
	}
	var s *Job
	if err == nil {
		s, err = DecodeJob(ScheduleJob, r.JobRecord)
	}
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", name, err)
	}
	queue, priority := r.Job.Queue, r.Job.Priority
	r.Job = s.Job
	r.Job.Queue, r.Job.Priority = queue, priority
	return r, nil
}

func (r *Schedule) read(f field) error {
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
		return f.into(&r.Since)
	case cronAnchor:
		return f.into(&r.Anchor)
	case cronJob:
		r.JobRecord = f.v
	case cronPriority, cronMissed, cronOverlap:
		return r.readSmall(f)
	}
	return nil
}

func (r *Schedule) readSmall(f field) error {
	v, err := f.number()
	if err != nil {
		return err
	}
	most := map[uint64]uint64{cronPriority: job.Priorities, cronMissed: job.MissedRules, cronOverlap: job.OverlapRules}[f.tag]
	if v >= most {
		return fmt.Errorf("%w: field %d is %d", job.ErrDamaged, f.tag, v)
	}
	switch f.tag {
	case cronPriority:
		r.Job.Priority = job.Priority(v)
	case cronMissed:
		r.Missed = job.Missed(v)
	case cronOverlap:
		r.Overlap = job.Overlap(v)
	}
	return nil
}

// Tick is the progress of a schedule.
type Tick struct {
	// Since is that of the schedule's record to which Last belongs.
	Since time.Time
	// Last is the last tick that was handled.
	Last time.Time
	// Job is the id of the last job that was enqueued, including those fired by hand.
	Job string
	// Node is the node that handled Last.
	Node           string
	Fired, Skipped uint64
	Err            string
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

// Encode returns the record of r for the schedule name.
func (r *Tick) Encode(name string) []byte {
	w := newRecord(96 + len(r.Node) + len(r.Err))
	w.moment(tickSince, r.Since)
	w.moment(tickLast, r.Last)
	w.text(tickJob, r.Job)
	w.text(tickNode, r.Node)
	w.number(tickFired, r.Fired)
	w.number(tickSkipped, r.Skipped)
	w.text(tickErr, Cut(r.Err, LongestError))
	return w.seal(TickSubjects + ScheduleToken(name))
}

// DecodeTick reads a record that [Tick.Encode] wrote.
func DecodeTick(name string, b []byte) (Tick, error) {
	var r Tick
	err := readRecord(TickSubjects+ScheduleToken(name), b, func(f field) error {
		switch f.tag {
		case tickSince:
			return f.into(&r.Since)
		case tickLast:
			return f.into(&r.Last)
		case tickJob:
			r.Job = string(f.v)
		case tickNode:
			r.Node = string(f.v)
		case tickFired:
			return f.into(&r.Fired)
		case tickSkipped:
			return f.into(&r.Skipped)
		case tickErr:
			r.Err = string(f.v)
		}
		return nil
	})
	if err != nil {
		return Tick{}, fmt.Errorf("last tick of schedule %q: %w", name, err)
	}
	return r, nil
}

// After returns the moment after which ticks are still to be handled, for a schedule
// whose ticks count since the given moment.
func (r *Tick) After(since time.Time) time.Time {
	if r.Since.Equal(since) && r.Last.After(since) {
		return r.Last
	}
	return since
}

// EncodeTicked returns the message that reports a tick to other nodes: the name of the
// schedule, and the stored record with its sequence number.
func EncodeTicked(name string, seq uint64, record []byte) []byte {
	w := recordWriter{make([]byte, 0, len(record)+len(name)+16)}
	w.text(1, name)
	w.number(2, seq)
	w.bytes(3, record)
	return w.b
}

// DecodeTicked reads what EncodeTicked returned.
func DecodeTicked(b []byte) (name string, seq uint64, t Tick, err error) {
	var record []byte
	err = readFields(b, func(f field) error {
		switch f.tag {
		case 1:
			name = string(f.v)
		case 2:
			return f.into(&seq)
		case 3:
			record = f.v
		}
		return nil
	})
	if err == nil {
		t, err = DecodeTick(name, record)
	}
	return name, seq, t, err
}
