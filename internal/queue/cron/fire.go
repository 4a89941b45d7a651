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
	// mostFiring is how many schedules are dealt with at the same time.
	mostFiring = 512
	// lookAgain is how often the clock is looked at, which people can set.
	lookAgain = time.Second
	// readAgain is how often all schedules are read again where other nodes change
	// them, in case a word of them was lost.
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

// firer is a call of FireSchedules. All but the inbox belongs to the goroutine of
// that call.
type firer struct {
	queue   *Schedules
	leaving context.Context //nolint:containedctx // of the call: its end lets those that fire stop after their tick
	shared  bool
	rules   ruleCache
	entries map[string]*entry // by name
	agenda  agenda
	gone    map[string]bool // nodes that others need not wait for
	reload  []string        // names of schedules to read
	loading map[string]bool // those that are being read, or in reload; true is once more
	touched map[string]bool // those that changed while all are read
	firing  int             // goroutines that deal with a schedule, or read one
	busy    int             // those of them that deal with one
	reading bool            // one reads them all
	readAt  time.Time       // when to read them all
	looked  time.Time       // when the clock was last looked at
	workers sync.WaitGroup

	wake  chan struct{} // capacity 1: something is in the inbox
	mu    sync.Mutex
	inbox []news // guarded by mu
}

// errFiring says that a queue fires its schedules already.
var errFiring = errors.New("queue: FireSchedules runs already on this Queue: one call is enough")

// FireSchedules is that of a queue.
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
	stop, err := f.listen()
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
		q.Engine.Send(tellBye, []byte(q.Config.Node)) //nolint:errcheck // then the others wait for their second
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

// lookAtClock has times set anew that were set by a clock which has been put back
// since.
func (f *firer) lookAtClock(now time.Time) {
	if now.Before(f.looked.Add(-lookAgain)) {
		f.readAt = now
		for _, e := range f.entries {
			f.place(e)
		}
	}
	f.looked = now
}

// idle is how long there is nothing to do, as far as is known.
func (f *firer) idle(now time.Time) time.Duration {
	if len(f.agenda) == 0 || f.firing >= mostFiring {
		return lookAgain
	}
	return max(min(f.agenda[0].wake.Sub(now), lookAgain), 0)
}

// start begins what is due, as far as there is room for it. Its goroutines end
// with what they ask the store; FireSchedules waits for them.
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
			f.tell(news{fired: e})
		})
	}
}

// Check reports every fault of s at once that PutSchedule would find.
func Check(c *jobs.Config, s *job.Schedule) error {
	return errors.Join(s.Check(), c.CheckSizes(&s.Job))
}
