package queue

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
)

// now is the time by which schedules tick.
func (q *Queue) now() time.Time {
	if c, ok := q.engine.(engine.Clock); ok {
		return c.Now()
	}
	return time.Now()
}

// PutSchedule makes a schedule, or replaces the one of that name. When it returns
// nil the schedule survives a loss of power, and nodes that are in FireSchedules
// know it. A schedule whose rule stays the same (Cron, Every and Zone) goes on
// where it was; ticks of another rule count from now. It costs some reads, and one
// message with a sync of the disk unless everything is as it was.
func (q *Queue) PutSchedule(ctx context.Context, s Schedule) (ScheduleInfo, error) {
	if err := s.check(&q.config); err != nil {
		return ScheduleInfo{}, err
	}
	if err := q.admit(&s.Job, ""); err != nil {
		return ScheduleInfo{}, fmt.Errorf("schedule %q: %w", s.Name, err)
	}
	if s.Job.Queue == "" {
		s.Job.Queue = "default"
	}
	return q.changeSchedule(ctx, s.Name, func(*scheduleRecord) (*Schedule, error) { return &s, nil })
}

// PauseSchedule pauses a schedule, or resumes it: then it goes on with its next
// tick. It costs as much as PutSchedule.
func (q *Queue) PauseSchedule(ctx context.Context, name string, paused bool) (ScheduleInfo, error) {
	return q.changeSchedule(ctx, name, func(old *scheduleRecord) (*Schedule, error) {
		if old == nil {
			return nil, noSchedule(name)
		}
		s := old.Schedule
		s.Paused = paused
		return &s, nil
	})
}

func noSchedule(name string) error {
	return fmt.Errorf("%w: %q", ErrNoSchedule, name)
}

// changeSchedule stores what change makes of a schedule; old is nil where there is
// none.
func (q *Queue) changeSchedule(ctx context.Context, name string, change func(old *scheduleRecord) (*Schedule, error)) (ScheduleInfo, error) {
	for range keyTries {
		old, seq, err := q.readSchedule(ctx, name)
		if err != nil && !errors.Is(err, ErrNoSchedule) && !errors.Is(err, ErrDamaged) {
			return ScheduleInfo{}, err
		}
		s, err := change(old)
		if err != nil {
			return ScheduleInfo{}, err
		}
		r := q.successor(s, old)
		data := r.encode()
		if old != nil && bytes.Equal(data, old.encode()) {
			return q.scheduleInfo(ctx, r)
		}
		err = q.put(ctx, engine.Put{
			Stream: engine.State, Subject: cronSubjects + scheduleToken(name), Data: data, Durable: true, New: seq == 0, After: seq,
		})
		if errors.Is(err, engine.ErrConflict) {
			continue
		}
		if err != nil {
			return ScheduleInfo{}, fmt.Errorf("schedule %q was not stored: %w", name, err)
		}
		q.scheduleChanged(name)
		return q.scheduleInfo(ctx, r)
	}
	return ScheduleInfo{}, fmt.Errorf("schedule %q was not stored: %d other callers changed it first, each time: try again", name, keyTries)
}

// successor gives the record of s in the place of an old one, which may be nil.
func (q *Queue) successor(s *Schedule, old *scheduleRecord) *scheduleRecord {
	now := q.now().Truncate(time.Millisecond)
	r := &scheduleRecord{Schedule: *s, since: now, anchor: now}
	if old == nil || old.Cron != s.Cron || old.Every != s.Every || old.Zone != s.Zone {
		return r
	}
	r.anchor = old.anchor
	if s.Paused || !old.Paused {
		r.since = old.since
	}
	return r
}

// readSchedule reads the record of a schedule. seq is told also of a damaged one.
func (q *Queue) readSchedule(ctx context.Context, name string) (r *scheduleRecord, seq uint64, err error) {
	if err := checkScheduleName(name); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrNoSchedule, err)
	}
	m, err := q.engine.Get(ctx, engine.State, cronSubjects+scheduleToken(name))
	if errors.Is(err, engine.ErrNotFound) {
		return nil, 0, noSchedule(name)
	}
	if err != nil {
		return nil, 0, storeError(err)
	}
	r, err = decodeSchedule(name, m.Data)
	return r, m.Seq, err
}

// readTick reads how far a schedule is. One that never ticked has seq 0, a damaged
// one is as if it never had.
func (q *Queue) readTick(ctx context.Context, name string) (r tickRecord, seq uint64, err error) {
	m, err := q.engine.Get(ctx, engine.State, tickSubjects+scheduleToken(name))
	if errors.Is(err, engine.ErrNotFound) {
		return tickRecord{}, 0, nil
	}
	if err != nil {
		return tickRecord{}, 0, storeError(err)
	}
	r, _ = decodeTick(name, m.Data) // see above
	return r, m.Seq, nil
}

// GetSchedule returns what there is to know of a schedule, or ErrNoSchedule. It
// costs three to eight reads.
func (q *Queue) GetSchedule(ctx context.Context, name string) (ScheduleInfo, error) {
	r, _, err := q.readSchedule(ctx, name)
	if err != nil {
		return ScheduleInfo{}, err
	}
	return q.scheduleInfo(ctx, r)
}

func (q *Queue) scheduleInfo(ctx context.Context, r *scheduleRecord) (ScheduleInfo, error) {
	t, _, err := q.readTick(ctx, r.Name)
	if err != nil {
		return ScheduleInfo{}, err
	}
	i := q.infoOf(r, &t)
	return i, q.addLastState(ctx, &i)
}

const mostUpcoming = 3

// infoOf gives what two records tell.
func (q *Queue) infoOf(r *scheduleRecord, t *tickRecord) ScheduleInfo {
	i := ScheduleInfo{Schedule: r.Schedule, Last: t.last, LastJob: t.job, Fired: t.fired, Skipped: t.skipped, Err: t.err}
	if r.Paused {
		return i
	}
	rule, err := r.rule(r.anchor, loadZone)
	if err != nil {
		i.Err = err.Error()
		return i
	}
	after := t.after(r.since)
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

// addLastState looks how the last job is. The outcome is looked for first: nearly
// always it is there.
func (q *Queue) addLastState(ctx context.Context, i *ScheduleInfo) error {
	if i.LastJob == "" {
		return nil
	}
	if e, err := q.outcome(ctx, i.LastJob); err == nil {
		i.LastState = e.state().String()
		return nil
	}
	info, err := q.Get(ctx, i.LastJob)
	switch {
	case err == nil:
		i.LastState = info.State.String()
	case !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrDamaged):
		return err
	}
	return nil
}

// listers is how many last jobs ListSchedules looks at, at a time.
const listers = 16

// ListSchedules returns all schedules in the order of their names. It costs two
// scans, and a read or more for each schedule. One whose record is damaged has a
// Name and an Err, and nothing else: put it again, or remove it.
func (q *Queue) ListSchedules(ctx context.Context) ([]ScheduleInfo, error) {
	all, err := q.scanSchedules(ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]ScheduleInfo, len(all))
	errs := make([]error, len(all))
	room := make(chan struct{}, listers)
	var looking sync.WaitGroup
	for i := range all {
		if all[i].err != nil {
			infos[i] = ScheduleInfo{Schedule: Schedule{Name: all[i].name}, Err: all[i].err.Error()}
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
	slices.SortFunc(infos, func(a, b ScheduleInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos, nil
}

// scannedSchedule is a schedule as a scan finds it.
type scannedSchedule struct {
	name    string
	record  *scheduleRecord // nil with err
	seq     uint64
	tick    tickRecord
	tickSeq uint64
	err     error
}

// scanSchedules reads all schedules.
func (q *Queue) scanSchedules(ctx context.Context) ([]scannedSchedule, error) {
	var all []scannedSchedule
	at := make(map[string]int)
	err := q.scanState(ctx, cronSubjects+"*", func(name string, m engine.Message) {
		s := scannedSchedule{name: name, seq: m.Seq}
		s.record, s.err = decodeSchedule(name, m.Data)
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
	err = q.scanState(ctx, tickSubjects+"*", func(name string, m engine.Message) {
		i, there := at[name]
		if !there {
			return // it was removed, or put just now
		}
		all[i].tickSeq = m.Seq
		all[i].tick, _ = decodeTick(name, m.Data) // a damaged one is as none
	})
	return all, err
}

// scanState reads all messages of state on some subjects.
func (q *Queue) scanState(ctx context.Context, subjects string, each func(name string, m engine.Message)) error {
	for from := uint64(0); ; {
		page, err := q.engine.Scan(ctx, engine.State, subjects, from, scanPage)
		if err != nil {
			return storeError(err)
		}
		for _, m := range page {
			from = m.Seq + 1
			each(scheduleName(engine.LastToken(m.Subject)), m)
		}
		if len(page) < scanPage {
			return nil
		}
	}
}

// RemoveSchedule removes a schedule; its jobs stay. When it returns nil that
// survives a loss of power.
func (q *Queue) RemoveSchedule(ctx context.Context, name string) error {
	_, seq, err := q.readSchedule(ctx, name)
	if err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	if err := q.engine.Delete(ctx, engine.State, seq); err != nil {
		return storeError(err)
	}
	q.scheduleChanged(name)
	if _, seq, err := q.readTick(ctx, name); err == nil && seq > 0 {
		err = q.engine.Delete(ctx, engine.State, seq)
		if err != nil {
			return storeError(err)
		}
	}
	return q.settle(ctx)
}

// FireSchedule enqueues a job of a schedule now, also of a paused one. It is no
// tick: the next one comes as it would have. With OverlapForbid the error is
// ErrOverlap while the last job has not ended.
func (q *Queue) FireSchedule(ctx context.Context, name string) (Ref, error) {
	r, _, err := q.readSchedule(ctx, name)
	if err != nil {
		return Ref{}, err
	}
	t, _, err := q.readTick(ctx, name)
	if err != nil {
		return Ref{}, err
	}
	if r.Overlap == OverlapForbid {
		switch runs, err := q.unended(ctx, t.job); {
		case err != nil:
			return Ref{}, err
		case runs:
			return Ref{}, fmt.Errorf("%w: %s of schedule %q", ErrOverlap, t.job, name)
		}
	}
	s, err := q.accept(&r.Job)
	if err != nil {
		return Ref{}, err
	}
	s.schedule, s.tick = name, q.now().Truncate(time.Millisecond)
	ref, err := q.enqueue(ctx, s)
	if err != nil {
		return ref, err
	}
	q.journal.emit(Event{Kind: ScheduleFired, Schedule: name, Queue: s.job.Queue, Task: s.job.Name, Job: s.id, Text: "by hand"})
	// That it is the last one is for people and for overlaps: the job is enqueued.
	if err := q.noteFired(ctx, name, s.id); err != nil {
		q.journal.emit(Event{Kind: NotKept, Schedule: name, Job: s.id, Text: "that it is the last job of its schedule: " + err.Error()})
	}
	return ref, nil
}

// noteFired notes a job that was enqueued by hand.
func (q *Queue) noteFired(ctx context.Context, name, id string) error {
	for range keyTries {
		t, seq, err := q.readTick(ctx, name)
		if err != nil {
			return err
		}
		t.job = id
		if _, err = q.putTick(ctx, name, t, seq); !errors.Is(err, engine.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%d ticks came first, each time", keyTries)
}

// putTick stores how far a schedule is, in the place of what has seq, and tells
// the other nodes. It does not wait for the disk.
func (q *Queue) putTick(ctx context.Context, name string, t tickRecord, seq uint64) (uint64, error) {
	p := engine.Put{Stream: engine.State, Subject: tickSubjects + scheduleToken(name), Data: t.encode(name), New: seq == 0, After: seq}
	type answer struct {
		seq uint64
		err error
	}
	c := make(chan answer, 1)
	q.engine.Put(p, func(seq uint64, err error) { c <- answer{seq, err} })
	select {
	case a := <-c:
		if a.err == nil {
			q.scheduleTicked(name, a.seq, p.Data)
		}
		return a.seq, storeError(a.err)
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrUnconfirmed, context.Cause(ctx))
	}
}

// unended tells whether a job waits or runs.
func (q *Queue) unended(ctx context.Context, id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	info, err := q.Get(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, nil
	case errors.Is(err, ErrDamaged):
		return false, nil // it is buried when its turn comes
	case err != nil:
		return false, err
	}
	return !info.State.Ended(), nil
}
