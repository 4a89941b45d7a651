package queue

import (
	"context"

	"github.com/bullpen-run/bullpen/job"
)

// FireSchedules enqueues the jobs of all schedules at their ticks until ctx ends. Any
// number of nodes may call it: each tick has one job, whichever nodes die when. The
// node that had the last tick of a schedule goes first, the others after a second.
//
// A node goes by its own clock. If the clock is ahead, the node fires early by as much;
// if it is behind, another node was there first. A clock that is set back fires nothing
// twice.
//
// When ctx ends, ticks in progress are finished, and the error is nil. It is
// job.ErrClosed after Close; any other error says why there will be no more ticks. A
// store that does not answer for a while ends nothing. Each tick costs one message and
// one sync of the disk, which ticks at the same time share, and one more small message.
// Each schedule takes about 2 kB of memory, including the part of the store.
func (q *Queue) FireSchedules(ctx context.Context) error {
	return q.schedules.FireSchedules(ctx)
}

// PutSchedule creates a schedule, or replaces the one with that name. When it returns
// nil the schedule survives a loss of power, and the nodes in FireSchedules know it. If
// Cron, Every and Zone stay the same, the schedule goes on where it was; otherwise its
// ticks count from now. It costs some reads, and one message with a sync of the disk
// unless nothing changes.
func (q *Queue) PutSchedule(ctx context.Context, s job.Schedule) (job.ScheduleInfo, error) {
	return q.schedules.PutSchedule(ctx, s)
}

// PauseSchedule pauses a schedule, or resumes it with its next tick. It costs as much
// as PutSchedule.
func (q *Queue) PauseSchedule(ctx context.Context, name string, paused bool) (job.ScheduleInfo, error) {
	return q.schedules.PauseSchedule(ctx, name, paused)
}

// GetSchedule returns a schedule, or job.ErrNoSchedule. It costs three to eight reads.
func (q *Queue) GetSchedule(ctx context.Context, name string) (job.ScheduleInfo, error) {
	return q.schedules.GetSchedule(ctx, name)
}

// ListSchedules returns all schedules in the order of their names. It costs two scans,
// and at least one read for each schedule. A schedule whose record is damaged has only
// Name and Err: put it again, or remove it.
func (q *Queue) ListSchedules(ctx context.Context) ([]job.ScheduleInfo, error) {
	return q.schedules.ListSchedules(ctx)
}

// RemoveSchedule removes a schedule. Its jobs stay. When it returns nil the removal
// survives a loss of power.
func (q *Queue) RemoveSchedule(ctx context.Context, name string) error {
	return q.schedules.RemoveSchedule(ctx, name)
}

// FireSchedule enqueues a job of a schedule now, also of a paused one. It does not
// change the ticks. With OverlapForbid the error is job.ErrOverlap if the last job has
// not ended.
func (q *Queue) FireSchedule(ctx context.Context, name string) (job.Ref, error) {
	return q.schedules.FireSchedule(ctx, name)
}
