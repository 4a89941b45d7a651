package cron

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

// tickID returns the id of the job of a tick: the same on all nodes, even if the schedule
// has changed since.
func tickID(name string, tick time.Time) string { return record.DerivedID(tick, "cron", name) }

// fire handles the ticks of a schedule that are due. For each one it first puts the job,
// under the id of the tick, and then records that. If the node dies in between, another
// node puts the same job again, which changes nothing. While fire runs, it owns e.
func (f *firer) fire(e *entry) {
	q := f.queue
	for {
		if err := f.look(e); err != nil {
			f.failed(e, err)
			return
		}
		d := e.dueAt(q.now())
		if d == nil {
			e.pause, e.trying = 0, time.Time{}
			return
		}
		if e.held && e.tick.Node != "" {
			// The node that had the last tick let this one pass.
			f.post(news{bye: e.tick.Node})
		}
		again, err := f.deal(e, d)
		if err != nil {
			f.failed(e, err)
			return
		}
		e.pause, e.trying = 0, time.Time{}
		if !again || f.leaving.Err() != nil {
			return
		}
	}
}

// look reads the progress of a schedule if another node may have handled the tick that is
// due.
func (f *firer) look(e *entry) error {
	if !e.stale && (!f.shared || !e.held && e.overlap == job.OverlapAllow) {
		return nil
	}
	t, seq, err := f.queue.readTick(f.queue.Live, e.name)
	if err != nil {
		return err
	}
	e.tick, e.tickSeq, e.stale = t, seq, false
	return nil
}

// deal handles what is due. again means that the schedule must be checked again.
func (f *firer) deal(e *entry, d *due) (again bool, err error) {
	q := f.queue
	if d.maybeDone {
		fired, err := q.unendedOrEnded(q.Live, tickID(e.name, d.first))
		if err != nil {
			return false, err
		}
		if fired {
			// The node that enqueued it did not record that.
			return true, f.note(e, advance{tick: d.first, job: tickID(e.name, d.first), adopted: true})
		}
	}
	if d.missed > 0 {
		if err := f.note(e, advance{tick: d.last, missed: d.missed}); err != nil {
			return false, err
		}
	}
	for _, tick := range d.fire {
		select {
		case <-f.leaving.Done():
			return false, nil
		default:
		}
		if err := f.fireTick(e, tick, d.late); err != nil {
			return false, err
		}
	}
	return true, nil
}

// fireTick enqueues the job of one tick and records that.
func (f *firer) fireTick(e *entry, tick time.Time, late bool) error {
	q := f.queue
	if e.overlap == job.OverlapForbid {
		runs, err := q.unended(q.Live, e.tick.Job)
		if err != nil {
			return err
		}
		if runs {
			return f.note(e, advance{tick: tick, skipped: "the last job, " + e.tick.Job + ", has not ended"})
		}
	}
	s, err := f.jobOf(e, tick)
	if err != nil {
		return err
	}
	if _, err := q.EnqueueDerived(q.Live, s); err != nil {
		return err
	}
	if !late {
		q.Ticks.wasLate(q.now().Sub(tick))
	}
	return f.note(e, advance{tick: tick, job: s.ID, stored: s})
}

// jobOf returns the job of a tick.
func (f *firer) jobOf(e *entry, tick time.Time) (*record.Job, error) {
	q := f.queue
	data := e.job
	if data == nil {
		r, _, err := q.readSchedule(q.Live, e.name)
		if err != nil {
			return nil, err
		}
		data = r.JobRecord
	}
	kept, err := record.DecodeJob(record.ScheduleJob, data)
	if err != nil {
		return nil, err
	}
	kept.Job.Queue, kept.Job.Priority = e.queue, e.priority
	s, err := q.Prepare(&kept.Job)
	if err != nil {
		return nil, err
	}
	s.ID, s.Schedule, s.Tick = tickID(e.name, tick), e.name, tick
	return s, nil
}

// advance is one step of a schedule's progress.
type advance struct {
	tick    time.Time
	job     string      // the id of the job that was enqueued, empty for none
	stored  *record.Job // the same job
	adopted bool        // another node enqueued it and did not record that
	skipped string      // why no job was enqueued
	missed  int         // how many ticks up to this one were missed
}

// note stores the progress of a schedule. If another node has recorded the same tick,
// nothing is counted here.
func (f *firer) note(e *entry, s advance) error {
	q := f.queue
	for range jobs.KeyTries {
		t := e.tick
		if t.After(e.since).After(s.tick) || t.After(e.since).Equal(s.tick) {
			return nil
		}
		t.Since, t.Last, t.Node, t.Err = e.since, s.tick, q.Config.Node, ""
		switch {
		case s.job != "":
			t.Job = s.job
			t.Fired++
		case s.missed > 0:
			t.Skipped += uint64(s.missed)
		default:
			t.Skipped++
		}
		seq, err := q.putTick(q.Live, e.name, t, e.tickSeq)
		if err == nil {
			e.tick, e.tickSeq = t, seq
			f.count(e, s)
			return nil
		}
		if !errors.Is(err, engine.ErrConflict) {
			e.stale = true
			return err
		}
		if e.tick, e.tickSeq, err = q.readTick(q.Live, e.name); err != nil {
			e.stale = true
			return err
		}
	}
	return fmt.Errorf("the progress of schedule %q was not stored: other nodes stored theirs first %d times", e.name, jobs.KeyTries)
}

// count counts what this node has done, and emits events.
func (f *firer) count(e *entry, s advance) {
	q := f.queue
	c := &q.Ticks
	ev := job.Event{Schedule: e.name, Queue: e.queue, Text: "tick " + s.tick.UTC().Format(time.RFC3339Nano)}
	switch {
	case s.adopted:
		c.Fired.Add(1)
		return
	case s.job != "":
		c.Fired.Add(1)
		ev.Kind, ev.Job, ev.Task = job.ScheduleFired, s.job, s.stored.Job.Name
	case s.missed > 0:
		c.Missed.Add(uint64(s.missed))
		ev.Kind, ev.Count = job.TicksMissed, s.missed
		ev.Text = "until " + ev.Text
	default:
		c.Skipped.Add(1)
		ev.Kind = job.TickSkipped
		ev.Text += ": " + s.skipped
	}
	q.Journal.Emit(ev)
}

// failed records why a tick could not be handled. It is tried again until the next one is
// due.
func (f *firer) failed(e *entry, err error) {
	q, tick := f.queue, e.rule.Next(e.after())
	first := !e.trying.Equal(tick)
	e.trying, e.pause = tick, min(max(2*e.pause, jobs.FirstPause), jobs.LastPause)
	if q.Hopeless(err) {
		return // FireSchedules ends and returns the reason
	}
	q.Ticks.Failed.Add(1)
	if !first {
		return
	}
	q.Journal.Emit(job.Event{Kind: job.ScheduleFailed, Schedule: e.name, Queue: e.queue, Text: err.Error()})
	if e.stale {
		return
	}
	t := e.tick
	t.Err = err.Error()
	seq, err := q.putTick(q.Live, e.name, t, e.tickSeq)
	if err != nil {
		e.stale = true
		return
	}
	e.tick, e.tickSeq = t, seq
}

// unendedOrEnded reports whether a job exists or has existed.
func (q *Schedules) unendedOrEnded(ctx context.Context, id string) (bool, error) {
	_, err := q.Get(ctx, id)
	switch {
	case err == nil || errors.Is(err, job.ErrDamaged):
		return true, nil
	case errors.Is(err, job.ErrNotFound):
		return false, nil
	default:
		return false, err
	}
}
