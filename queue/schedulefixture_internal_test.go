package queue

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/job"
)

// skewed is a store whose nodes have a wrong clock.
type skewed struct {
	Store
	clock *skew
}

// skew is how much a clock is ahead.
type skew struct {
	mu sync.Mutex
	by time.Duration // guarded by mu
}

func (s *skew) set(by time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by = by
}

// Now is engine.Clock.
func (s *skew) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.by)
}

func (s skewed) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	e, err := s.Store.Open(ctx, o)
	return struct {
		engine.Engine
		*skew
	}{e, s.clock}, err
}

// mute is a store that other nodes share, and that does not answer who wants to listen
// for the first times.
type mute struct {
	Store
	times *atomic.Int64
}

// muteEngine is the engine of mute.
type muteEngine struct {
	engine.Engine
	times *atomic.Int64
}

func (m mute) Open(ctx context.Context, o engine.Options) (engine.Engine, error) {
	e, err := m.Store.Open(ctx, o)
	return muteEngine{e, m.times}, err
}

func (m muteEngine) Shared() bool { return true }

func (m muteEngine) Listen(subject string, heard func(string, []byte)) (stop func(), err error) {
	if strings.HasPrefix(subject, "cron.") && m.times.Add(-1) >= 0 {
		return nil, context.DeadlineExceeded
	}
	return m.Engine.Listen(subject, heard)
}

// fireOn runs FireSchedules until the test ends or stop is called.
func fireOn(t testing.TB, q *Queue) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.FireSchedules(ctx) }() // ends with ctx; stop waits
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, job.ErrClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func putSchedule(t testing.TB, q *Queue, s job.Schedule) job.ScheduleInfo {
	t.Helper()
	i, err := q.PutSchedule(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func getSchedule(t testing.TB, q *Queue, name string) job.ScheduleInfo {
	t.Helper()
	i, err := q.GetSchedule(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// ticked gives the ticks of the jobs of a schedule that wait, as offsets from a
// moment, in the order in which they were put.
func ticked(t testing.TB, q *Queue, name string, from time.Time) []time.Duration {
	t.Helper()
	var all []time.Duration
	for f := (job.Filter{States: []job.State{job.Queued, job.Running}, Schedule: name, Limit: jobs.MostPage}); ; {
		page, err := q.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Jobs {
			all = append(all, page.Jobs[i].Tick.Sub(from))
		}
		if f.After = page.Next; f.After == "" {
			return all
		}
	}
}

// every gives n times d, 2d and so on, from the first on.
func every(d time.Duration, first, n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = time.Duration(first+i) * d
	}
	return all
}
