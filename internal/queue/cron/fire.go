package cron

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

const (
	// mostFiring is how many schedules are handled concurrently.
	mostFiring = 512
	// lookAgain is how often the clock is checked, since users can set it.
	lookAgain = time.Second
	// readAgain is how often all schedules are read again if other nodes change them, in
	// case a message was lost.
	readAgain = time.Minute
)

// Schedules enqueue jobs at set times.
type Schedules struct {
	*jobs.Jobs

	Ticks ScheduleCounters

	mu    sync.Mutex
	firer *firer // the call of FireSchedules, nil if there is none; guarded by mu
}

// New returns the schedules of jobs.
func New(jobs *jobs.Jobs) *Schedules { return &Schedules{Jobs: jobs} }

// firer is a call of FireSchedules. All fields but the inbox belong to the goroutine of
// that call.
type firer struct {
	queue   *Schedules
	leaving context.Context //nolint:containedctx // of the call: its end lets those that fire stop after their tick
	shared  bool
	rules   ruleCache
	entries map[string]*entry // by name
	agenda  agenda
	gone    map[string]bool // nodes that need not be waited for
	reload  []string        // names of schedules to read
	loading map[string]bool // names being read or in reload; true means read once more
	touched map[string]bool // names changed while all schedules are read
	firing  int             // goroutines that handle or read a schedule
	busy    int             // those that handle one
	reading bool            // a goroutine reads all schedules
	readAt  time.Time       // when to read all schedules
	looked  time.Time       // when the clock was last checked
	workers sync.WaitGroup

	wake  chan struct{} // capacity 1: something is in the inbox
	mu    sync.Mutex
	inbox []news // guarded by mu
}

// errFiring means that a queue already fires its schedules.
var errFiring = errors.New("queue: FireSchedules already runs on this Queue: call it once")

// FireSchedules implements queue.Queue.FireSchedules.
func (q *Schedules) FireSchedules(ctx context.Context) error {
	f := &firer{
		queue: q, leaving: ctx, shared: q.Engine.Shared(), wake: make(chan struct{}, 1),
		entries: make(map[string]*entry), gone: make(map[string]bool), loading: make(map[string]bool),
	}
	done, open := q.Enter()
	if !open {
		return job.ErrClosed
	}
	defer done()
	q.mu.Lock()
	if q.firer != nil {
		q.mu.Unlock()
		return errFiring
	}
	q.firer = f
	q.mu.Unlock()
	stop, err := f.listenSoon(ctx)
	if err == nil {
		err = f.run(ctx)
	}
	f.workers.Wait()
	q.mu.Lock()
	q.firer = nil
	q.mu.Unlock()
	stop()
	q.Ticks.Known.Store(0)
	if f.shared && q.Live.Err() == nil {
		q.Engine.Send(subjectStopped, []byte(q.Config.Node)) //nolint:errcheck // then the others wait for their second
	}
	return err
}

// run fires until ctx ends.
func (f *firer) run(ctx context.Context) error {
	q := f.queue
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.Live.Done():
			return job.ErrClosed
		case <-q.Engine.Failed():
			return q.Err()
		case <-timer.C:
		case <-f.wake:
		}
		f.mu.Lock()
		inbox := f.inbox
		f.inbox = nil
		f.mu.Unlock()
		for i := range inbox {
			f.takeIn(&inbox[i])
		}
		now := q.now()
		f.lookAtClock(now)
		f.start(now)
		q.Ticks.Known.Store(int64(len(f.agenda) + f.busy))
		timer.Reset(f.idle(now))
	}
}

// lookAtClock reschedules all entries if the clock was set back, as their times may come
// from before.
func (f *firer) lookAtClock(now time.Time) {
	if now.Before(f.looked.Add(-lookAgain)) {
		f.readAt = now
		for _, e := range f.entries {
			f.reschedule(e)
		}
	}
	f.looked = now
}

// idle returns how long nothing is due, as far as is known.
func (f *firer) idle(now time.Time) time.Duration {
	if len(f.agenda) == 0 || f.firing >= mostFiring {
		return lookAgain
	}
	return max(min(f.agenda[0].wake.Sub(now), lookAgain), 0)
}

// start handles what is due, as far as there is room. Its goroutines end when the store
// has answered; FireSchedules waits for them.
func (f *firer) start(now time.Time) {
	if !f.reading && !now.Before(f.readAt) {
		f.reading, f.touched = true, make(map[string]bool)
		f.workers.Go(func() { f.readAll(now) })
	}
	for ; len(f.reload) > 0 && f.firing < mostFiring; f.reload = f.reload[1:] {
		name := f.reload[0]
		f.firing++
		f.workers.Go(func() { f.read(name) })
	}
	for len(f.agenda) > 0 && f.firing < mostFiring && !f.agenda[0].wake.After(now) {
		e, ok := heap.Pop(&f.agenda).(*entry)
		if !ok {
			return // nothing else is there
		}
		e.busy = true
		f.firing++
		f.busy++
		f.workers.Go(func() {
			f.fire(e)
			f.post(news{fired: e})
		})
	}
}

// Check reports every fault of s at once that PutSchedule would find.
func Check(c *jobs.Config, s *job.Schedule) error {
	return errors.Join(s.Check(), c.CheckSizes(&s.Job))
}
