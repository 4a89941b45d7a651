package cron

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/internal/schedule"
	"github.com/bullpen-run/bullpen/job"
)

// now returns the time by which schedules tick.
func (q *Schedules) now() time.Time {
	if c, ok := q.Engine.(engine.Clock); ok {
		return c.Now()
	}
	return time.Now()
}

// PutSchedule implements queue.Queue.PutSchedule.
func (q *Schedules) PutSchedule(ctx context.Context, s job.Schedule) (job.ScheduleInfo, error) {
	if err := Check(&q.Config, &s); err != nil {
		return job.ScheduleInfo{}, err
	}
	if err := q.Admit(&s.Job, ""); err != nil {
		return job.ScheduleInfo{}, fmt.Errorf("schedule %q: %w", s.Name, err)
	}
	if s.Job.Queue == "" {
		s.Job.Queue = "default"
	}
	return q.changeSchedule(ctx, s.Name, func(*record.Schedule) (*job.Schedule, error) { return &s, nil })
}

// PauseSchedule implements queue.Queue.PauseSchedule.
func (q *Schedules) PauseSchedule(ctx context.Context, name string, paused bool) (job.ScheduleInfo, error) {
	return q.changeSchedule(ctx, name, func(old *record.Schedule) (*job.Schedule, error) {
		if old == nil {
			return nil, noSchedule(name)
		}
		s := old.Schedule
		s.Paused = paused
		return &s, nil
	})
}

func noSchedule(name string) error {
	return fmt.Errorf("%w: %q", job.ErrNoSchedule, name)
}

// changeSchedule stores what change makes of a schedule; old is nil if there is none.
func (q *Schedules) changeSchedule(ctx context.Context, name string, change func(old *record.Schedule) (*job.Schedule, error)) (job.ScheduleInfo, error) {
	for range jobs.KeyTries {
		old, seq, err := q.readSchedule(ctx, name)
		if err != nil && !errors.Is(err, job.ErrNoSchedule) && !errors.Is(err, job.ErrDamaged) {
			return job.ScheduleInfo{}, err
		}
		s, err := change(old)
		if err != nil {
			return job.ScheduleInfo{}, err
		}
		r := q.successor(s, old)
		data := r.Encode()
		if old != nil && bytes.Equal(data, old.Encode()) {
			return q.scheduleInfo(ctx, r)
		}
		err = q.Put(ctx, engine.Put{
			Stream: engine.State, Subject: record.CronSubjects + record.ScheduleToken(name), Data: data, Durable: true, New: seq == 0, After: seq,
		})
		if errors.Is(err, engine.ErrConflict) {
			continue
		}
		if err != nil {
			return job.ScheduleInfo{}, fmt.Errorf("schedule %q was not stored: %w", name, err)
		}
		q.scheduleChanged(name)
		return q.scheduleInfo(ctx, r)
	}
	return job.ScheduleInfo{}, fmt.Errorf("schedule %q was not stored: other callers changed it first %d times: try again", name, jobs.KeyTries)
}

// successor returns the record of s that replaces old, which may be nil.
func (q *Schedules) successor(s *job.Schedule, old *record.Schedule) *record.Schedule {
	now := q.now().Truncate(time.Millisecond)
	r := &record.Schedule{Schedule: *s, Since: now, Anchor: now}
	if old == nil || old.Cron != s.Cron || old.Every != s.Every || old.Zone != s.Zone {
		return r
	}
	r.Anchor = old.Anchor
	if s.Paused || !old.Paused {
		r.Since = old.Since
	}
	return r
}

// readSchedule reads the record of a schedule. It returns seq for a damaged one too.
func (q *Schedules) readSchedule(ctx context.Context, name string) (r *record.Schedule, seq uint64, err error) {
	if err := job.CheckScheduleName(name); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", job.ErrNoSchedule, err)
	}
	m, err := q.Engine.Get(ctx, engine.State, record.CronSubjects+record.ScheduleToken(name))
	if errors.Is(err, engine.ErrNotFound) {
		return nil, 0, noSchedule(name)
	}
	if err != nil {
		return nil, 0, jobs.StoreError(err)
	}
	r, err = record.DecodeSchedule(name, m.Data)
	return r, m.Seq, err
}

// readTick reads the progress of a schedule. A schedule that never ticked has seq 0; a
// damaged record counts as no ticks.
func (q *Schedules) readTick(ctx context.Context, name string) (r record.Tick, seq uint64, err error) {
	m, err := q.Engine.Get(ctx, engine.State, record.TickSubjects+record.ScheduleToken(name))
	if errors.Is(err, engine.ErrNotFound) {
		return record.Tick{}, 0, nil
	}
	if err != nil {
		return record.Tick{}, 0, jobs.StoreError(err)
	}
	r, _ = record.DecodeTick(name, m.Data) // see above
	return r, m.Seq, nil
}

// GetSchedule implements queue.Queue.GetSchedule.
func (q *Schedules) GetSchedule(ctx context.Context, name string) (job.ScheduleInfo, error) {
	r, _, err := q.readSchedule(ctx, name)
	if err != nil {
		return job.ScheduleInfo{}, err
	}
	return q.scheduleInfo(ctx, r)
}

func (q *Schedules) scheduleInfo(ctx context.Context, r *record.Schedule) (job.ScheduleInfo, error) {
	t, _, err := q.readTick(ctx, r.Name)
	if err != nil {
		return job.ScheduleInfo{}, err
	}
	i := q.infoOf(r, &t)
	return i, q.addLastState(ctx, &i)
}

const mostUpcoming = 3

// infoOf combines the two records of a schedule.
func (q *Schedules) infoOf(r *record.Schedule, t *record.Tick) job.ScheduleInfo {
	i := job.ScheduleInfo{Schedule: r.Schedule, Last: t.Last, LastJob: t.Job, Fired: t.Fired, Skipped: t.Skipped, Err: t.Err}
	if r.Paused {
		return i
	}
	rule, err := schedule.New(r.Cron, r.Every, r.Zone, r.Anchor, schedule.Zone)
	if err != nil {
		i.Err = err.Error()
		return i
	}
	after := t.After(r.Since)
	if now := q.now(); now.After(after) {
		after = now
	}
	for t := rule.Next(after); len(i.Upcoming) < mostUpcoming && !t.IsZero(); t = rule.Next(t) {
		i.Upcoming = append(i.Upcoming, t)
	}
	if len(i.Upcoming) > 0 {
		i.Next = i.Upcoming[0]
	}
	return i
}

// addLastState adds the state of the last job. The outcome is read first, as it nearly
// always exists.
func (q *Schedules) addLastState(ctx context.Context, i *job.ScheduleInfo) error {
	if i.LastJob == "" {
		return nil
	}
	if e, err := q.Outcome(ctx, i.LastJob); err == nil {
		i.LastState = e.State().String()
		return nil
	}
	info, err := q.Get(ctx, i.LastJob)
	switch {
	case err == nil:
		i.LastState = info.State.String()
	case !errors.Is(err, job.ErrNotFound) && !errors.Is(err, job.ErrDamaged):
		return err
	}
	return nil
}

// listers is how many last jobs ListSchedules reads concurrently.
const listers = 16

// ListSchedules implements queue.Queue.ListSchedules.
func (q *Schedules) ListSchedules(ctx context.Context) ([]job.ScheduleInfo, error) {
	all, err := q.scanSchedules(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]job.ScheduleInfo, len(all))
	errs := make([]error, len(all))
	room := make(chan struct{}, listers)
	var looking sync.WaitGroup
	for i := range all {
		if all[i].err != nil {
			infos[i] = job.ScheduleInfo{Schedule: job.Schedule{Name: all[i].name}, Err: all[i].err.Error()}
			continue
		}
		room <- struct{}{}
		looking.Go(func() { // ends with its reads; waited for below
			defer func() { <-room }()
			infos[i] = q.infoOf(all[i].record, &all[i].tick)
			errs[i] = q.addLastState(ctx, &infos[i])
		})
	}
	looking.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	slices.SortFunc(infos, func(a, b job.ScheduleInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

// scannedSchedule is a schedule as read by a scan.
type scannedSchedule struct {
	name    string
	record  *record.Schedule // nil with err
	seq     uint64
	tick    record.Tick
	tickSeq uint64
	err     error
}

// scanSchedules reads all schedules.
func (q *Schedules) scanSchedules(ctx context.Context) ([]scannedSchedule, error) {
	var all []scannedSchedule
	at := make(map[string]int)
	err := q.scanState(ctx, record.CronSubjects+"*", func(name string, m engine.Message) {
		s := scannedSchedule{name: name, seq: m.Seq}
		s.record, s.err = record.DecodeSchedule(name, m.Data)
		if i, twice := at[name]; twice { // it was replaced during the scan
			all[i] = s
			return
		}
		at[name] = len(all)
		all = append(all, s)
	})
	if err != nil {
		return nil, err
	}
	err = q.scanState(ctx, record.TickSubjects+"*", func(name string, m engine.Message) {
		i, there := at[name]
		if !there {
			return // it was removed, or has just been put
		}
		all[i].tickSeq = m.Seq
		all[i].tick, _ = record.DecodeTick(name, m.Data) // a damaged one counts as none
	})
	return all, err
}

// scanState reads all messages of State whose subject matches.
func (q *Schedules) scanState(ctx context.Context, subjects string, each func(name string, m engine.Message)) error {
	for from := uint64(0); ; {
		page, err := q.Engine.Scan(ctx, engine.State, subjects, from, jobs.ScanPage)
		if err != nil {
			return jobs.StoreError(err)
		}
		for _, m := range page {
			from = m.Seq + 1
			each(record.ScheduleName(engine.LastToken(m.Subject)), m)
		}
		if len(page) < jobs.ScanPage {
			return nil
		}
	}
}

// RemoveSchedule implements queue.Queue.RemoveSchedule.
func (q *Schedules) RemoveSchedule(ctx context.Context, name string) error {
	_, seq, err := q.readSchedule(ctx, name)
	if err != nil && !errors.Is(err, job.ErrDamaged) {
		return err
	}
	if err := q.Engine.Delete(ctx, engine.State, seq); err != nil {
		return jobs.StoreError(err)
	}
	q.scheduleChanged(name)
	if _, seq, err := q.readTick(ctx, name); err == nil && seq > 0 {
		err = q.Engine.Delete(ctx, engine.State, seq)
		if err != nil {
			return jobs.StoreError(err)
		}
	}
	return q.Settle(ctx)
}

// FireSchedule implements queue.Queue.FireSchedule.
func (q *Schedules) FireSchedule(ctx context.Context, name string) (job.Ref, error) {
	r, _, err := q.readSchedule(ctx, name)
	if err != nil {
		return job.Ref{}, err
	}
	t, _, err := q.readTick(ctx, name)
	if err != nil {
		return job.Ref{}, err
	}
	if r.Overlap == job.OverlapForbid {
		switch runs, err := q.unended(ctx, t.Job); {
		case err != nil:
			return job.Ref{}, err
		case runs:
			return job.Ref{}, fmt.Errorf("%w: %s of schedule %q", job.ErrOverlap, t.Job, name)
		}
	}
	s, err := q.Accept(&r.Job)
	if err != nil {
		return job.Ref{}, err
	}
	s.Schedule, s.Tick = name, q.now().Truncate(time.Millisecond)
	ref, err := q.EnqueueStored(ctx, s)
	if err != nil {
		return ref, err
	}
	q.Journal.Emit(job.Event{Kind: job.ScheduleFired, Schedule: name, Queue: s.Job.Queue, Task: s.Job.Name, Job: s.ID, Text: "by hand"})
	// The job is enqueued; recording it as the last one only serves users and overlaps.
	if err := q.noteFired(ctx, name, s.ID); err != nil {
		q.Journal.Emit(job.Event{Kind: job.NotKept, Schedule: name, Job: s.ID, Text: "the last job of its schedule: " + err.Error()})
	}
	return ref, nil
}

// noteFired records a job that was enqueued by hand.
func (q *Schedules) noteFired(ctx context.Context, name, id string) error {
	for range jobs.KeyTries {
		t, seq, err := q.readTick(ctx, name)
		if err != nil {
			return err
		}
		t.Job = id
		if _, err = q.putTick(ctx, name, t, seq); !errors.Is(err, engine.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("ticks came first %d times", jobs.KeyTries)
}

// putTick stores the progress of a schedule in place of the record seq, and notifies the
// other nodes. It does not wait for the disk.
func (q *Schedules) putTick(ctx context.Context, name string, t record.Tick, seq uint64) (uint64, error) {
	p := engine.Put{Stream: engine.State, Subject: record.TickSubjects + record.ScheduleToken(name), Data: t.Encode(name), New: seq == 0, After: seq}
	type answer struct {
		seq uint64
		err error
	}
	c := make(chan answer, 1)
	q.Engine.Put(p, func(seq uint64, err error) { c <- answer{seq, err} })
	select {
	case a := <-c:
		if a.err == nil {
			q.scheduleTicked(name, a.seq, p.Data)
		}
		return a.seq, jobs.StoreError(a.err)
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", job.ErrUnconfirmed, context.Cause(ctx))
	}
}

// unended reports whether a job waits or runs.
func (q *Schedules) unended(ctx context.Context, id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	info, err := q.Get(ctx, id)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return false, nil
	case errors.Is(err, job.ErrDamaged):
		return false, nil // it will be buried when its turn comes
	case err != nil:
		return false, err
	}
	return !info.State.Ended(), nil
}
