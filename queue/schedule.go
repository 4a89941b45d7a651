package queue

import (
	"context"

	"github.com/bullpen-run/bullpen/job"
)

// FireSchedules enqueues the jobs of all schedules at their ticks until ctx ends.
// Any number of nodes may do so: each tick has one job, whichever of them die
// when. The node that had the last tick of a schedule goes first, the others after
// a second.
//
// A node goes by its own clock: one that is ahead fires early by as much, one that
// is behind finds that another was there before. A clock that is put back fires
// nothing twice.
//
// When ctx ends, what is under way is finished, and the error is nil. It is
// job.ErrClosed after Close, and says why else there will be no more ticks. A store
// that is away for a moment ends nothing. It costs one message and one sync of the
// disk for each tick, which ticks at the same time share, and a small message
// more; and about 2 kB of memory for each schedule, the store's part included.
func (q *Queue) FireSchedules(ctx context.Context) error {
	return q.schedules.FireSchedules(ctx)
}

// PutSchedule makes a schedule, or replaces the one of that name. When it returns
// nil the schedule survives a loss of power, and nodes that are in FireSchedules
// know it. A schedule whose rule stays the same (Cron, Every and Zone) goes on
// where it was; ticks of another rule count from now. It costs some reads, and one
// message with a sync of the disk unless everything is as it was.
func (q *Queue) PutSchedule(ctx context.Context, s job.Schedule) (job.ScheduleInfo, error) {
	return q.schedules.PutSchedule(ctx, s)
}

// PauseSchedule pauses a schedule, or resumes it: then it goes on with its next
// tick. It costs as much as PutSchedule.
func (q *Queue) PauseSchedule(ctx context.Context, name string, paused bool) (job.ScheduleInfo, error) {
	return q.schedules.PauseSchedule(ctx, name, paused)
}

// GetSchedule returns what there is to know of a schedule, or job.ErrNoSchedule. It
// costs three to eight reads.
func (q *Queue) GetSchedule(ctx context.Context, name string) (job.ScheduleInfo, error) {
	return q.schedules.GetSchedule(ctx, name)
}

// ListSchedules returns all schedules in the order of their names. It costs two
// scans, and a read or more for each schedule. One whose record is damaged has a
// Name and an Err, and nothing else: put it again, or remove it.
func (q *Queue) ListSchedules(ctx context.Context) ([]job.ScheduleInfo, error) {
	return q.schedules.ListSchedules(ctx)
}

// RemoveSchedule removes a schedule; its jobs stay. When it returns nil that
// survives a loss of power.
func (q *Queue) RemoveSchedule(ctx context.Context, name string) error {
	return q.schedules.RemoveSchedule(ctx, name)
}

// FireSchedule enqueues a job of a schedule now, also of a paused one. It is no
// tick: the next one comes as it would have. With OverlapForbid the error is
// job.ErrOverlap while the last job has not ended.
func (q *Queue) FireSchedule(ctx context.Context, name string) (job.Ref, error) {
	return q.schedules.FireSchedule(ctx, name)
}
