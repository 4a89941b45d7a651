package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/job"
)

// replanSoon is the delay before schedules that the store did not accept are stored
// again.
const replanSoon = 5 * time.Second

// replan requests that the schedules of the configuration are stored again.
func (d *Daemon) replan() {
	select {
	case d.planned <- struct{}{}:
	default: // already requested
	}
}

// runSchedules stores the schedules of the configuration, then fires all schedules
// until ctx ends. Storing comes first, so that no tick fires by a rule that was
// removed; the daemon becomes ready only after that.
func (d *Daemon) runSchedules(ctx context.Context) error {
	for !d.putPlanned(ctx) {
		if !waits(ctx, replanSoon) {
			return nil
		}
	}
	d.mu.Lock()
	d.scheduled = true
	d.mu.Unlock()
	d.judge()
	fired := make(chan error, 1)
	go func() { fired <- d.queue.FireSchedules(ctx) }() // ends with ctx or the queue; awaited below
	var again <-chan time.Time
	for {
		select {
		case err := <-fired:
			if errors.Is(err, job.ErrClosed) {
				return nil
			}
			return err
		case <-d.planned:
			again = time.After(replanSoon)
		case <-again:
			if again = nil; !d.putPlanned(ctx) {
				again = time.After(replanSoon)
			}
		}
	}
}

// waits sleeps for span; it returns false if ctx ended.
func waits(ctx context.Context, span time.Duration) bool {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// putPlanned makes the stored schedules of the configuration match it. Paused ones
// stay paused. It returns false if it must be called again.
func (d *Daemon) putPlanned(ctx context.Context) bool {
	d.planning.Lock()
	defer d.planning.Unlock()
	s := d.config() // read under the lock, so that the last call stores the newest
	if !s.SchedulesGiven {
		return true // the schedules may come from another daemon's configuration
	}
	err := d.putSchedules(ctx, s)
	if err != nil && !errors.Is(err, job.ErrClosed) {
		d.log.Error("some schedules of the configuration are not active", "again", replanSoon, "error", err)
	}
	return err == nil
}

func (d *Daemon) putSchedules(ctx context.Context, s *settings.Settings) error {
	all, err := d.queue.ListSchedules(ctx)
	if err != nil {
		return fmt.Errorf("cannot read them: %w", err)
	}
	there := make(map[string]*job.ScheduleInfo, len(all))
	for i := range all {
		there[all[i].Name] = &all[i]
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.Schedules)) {
		one := s.Schedules[name]
		if old := there[name]; old != nil {
			one.Paused = old.Paused
			if old.Origin != settings.OriginConfig {
				d.log.Warn("a schedule of the configuration replaces one that was added by a caller", "schedule", name)
			}
		}
		p := s.Pools[one.Job.Queue]
		complete(&one.Job, &p)
		_, err := d.queue.PutSchedule(ctx, one)
		if errors.Is(err, bullpen.ErrRefused) || errors.Is(err, bullpen.ErrUnknownTask) {
			// A bad schedule must not block the others.
			d.log.Error("a schedule of the configuration is not active: change it or its pool, and reload", "error", err)
			continue
		}
		errs = append(errs, err)
	}
	for i := range all {
		if _, planned := s.Schedules[all[i].Name]; all[i].Origin == settings.OriginConfig && !planned {
			err := d.queue.RemoveSchedule(ctx, all[i].Name)
			if err == nil {
				d.log.Info("a schedule was removed because the configuration no longer has it", "schedule", all[i].Name)
			} else if !errors.Is(err, job.ErrNoSchedule) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
