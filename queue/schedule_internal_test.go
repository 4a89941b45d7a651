package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/internal/queue/cron"
	"github.com/bullpen-run/bullpen/job"
)

func TestScheduleTicks(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := openOn(t, Config{Store: &memory.Store{Shared: shared}})
				feed := q.Events(100)
				begin := time.Now()
				putSchedule(t, q, job.Schedule{Name: "before", Every: 10 * time.Second, Job: job.Job{Name: "a"}})
				fireOn(t, q)
				synctest.Wait()
				<-time.After(5 * time.Second)
				putSchedule(t, q, job.Schedule{Name: "after", Cron: "* * * * *", Job: job.Job{Name: "b", Queue: "other", Priority: job.High, Payload: []byte("x")}})
				<-time.After(3 * time.Minute)
				synctest.Wait()
				if got, want := ticked(t, q, "before", begin), every(10*time.Second, 1, 18); !slices.Equal(got, want) {
					t.Errorf("the ticks %v\nwant %v", got, want)
				}
				if got, want := ticked(t, q, "after", begin), every(time.Minute, 1, 3); !slices.Equal(got, want) {
					t.Errorf("the ticks %v\nwant %v", got, want)
				}
				i := getSchedule(t, q, "after")
				if i.Fired != 3 || i.Skipped != 0 || !i.Last.Equal(begin.Add(3*time.Minute)) || !i.Next.Equal(begin.Add(4*time.Minute)) || i.LastState != "queued" || i.Err != "" {
					t.Errorf("its info is %+v", i)
				}
				info, err := q.Get(t.Context(), i.LastJob)
				if err != nil || info.Queue != "other" || info.Priority != job.High || string(info.Payload) != "x" || info.Schedule != "after" || !info.Tick.Equal(i.Last) {
					t.Errorf("its last job is %+v, %v", info, err)
				}
				s := q.Stats().Schedules
				if s.Fired != 21 || s.Known != 2 || s.Late.Count != 21 || s.Late.Quantile(1) > time.Millisecond {
					t.Errorf("the stats are %+v", s)
				}
				feed.Close()
				all := slices.DeleteFunc(kinds(feed), func(k job.EventKind) bool { return k != job.ScheduleFired })
				if len(all) != 21 {
					t.Errorf("%d events, want one for each tick", len(all))
				}
			})
		})
	}
}

// TestScheduleTellsItsHandler has a job that dies and is tried again: it learns
// for which tick it is.
func TestScheduleTellsItsHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := openOn(t, Config{})
		delivered := make(chan job.Delivered, 10)
		workOn(t, q, newTeam(1, func(_ context.Context, task bullpen.Task) ([]byte, error) {
			d := AttemptOf(task)
			delivered <- d
			if d.Parent == "" {
				return nil, bullpen.Fail("no", false)
			}
			return nil, nil
		}), WorkConfig{})
		fireOn(t, q)
		i := putSchedule(t, q, job.Schedule{Name: "a", Cron: "0 * * * *", Job: job.Job{Name: "a"}})
		d := <-delivered
		if d.Schedule != "a" || !d.Tick.Equal(i.Next) {
			t.Errorf("it received %+v, want the tick %v", d, i.Next)
		}
		synctest.Wait()
		i = getSchedule(t, q, "a")
		if i.LastState != "dead" {
			t.Errorf("its last state is %q", i.LastState)
		}
		if _, err := q.RetryDead(t.Context(), i.LastJob); err != nil {
			t.Fatal(err)
		}
		if again := <-delivered; again.Schedule != "a" || !again.Tick.Equal(d.Tick) {
			t.Errorf("another try received %+v, want %v", again, d)
		}
	})
}

// TestFireOnAStoreThatDoesNotAnswer has a store that answers only after a while when
// nodes begin to fire: that ends nothing.
func TestFireOnAStoreThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var times atomic.Int64
		q := openOn(t, Config{Store: mute{&memory.Store{}, &times}})
		times.Store(3)
		fireOn(t, q)
		begin := time.Now()
		putSchedule(t, q, job.Schedule{Name: "a", Every: time.Minute, Job: job.Job{Name: "a"}})
		<-time.After(10*time.Minute + time.Second)
		synctest.Wait()
		if got := ticked(t, q, "a", begin); len(got) != 10 || times.Load() >= 0 {
			t.Errorf("%v ticks fired, and %d refusals are left", got, times.Load())
		}
	})
}

// TestScheduleMissed has a time without a node.
func TestScheduleMissed(t *testing.T) {
	t.Parallel()
	const gap = 50 * time.Minute
	for _, c := range []struct {
		missed  job.Missed
		every   time.Duration
		fired   []time.Duration // in the gap of 50 min after 10 min
		skipped uint64
	}{
		{job.MissedOnce, 17 * time.Minute, []time.Duration{51 * time.Minute}, 2},
		{job.MissedSkip, 17 * time.Minute, nil, 3},
		{job.MissedAll, 17 * time.Minute, every(17*time.Minute, 1, 3), 0},
		// The last tick of the gap is just now.
		{job.MissedSkip, 10 * time.Minute, []time.Duration{time.Hour}, 4},
		{job.MissedOnce, 2 * time.Hour, nil, 0},
		{job.MissedAll, time.Second, every(time.Second, 2601, 1000), 3600 - 600 - 1000},
		{job.MissedOnce, 100 * time.Millisecond, []time.Duration{time.Hour}, cron.MostCounted - 1},
	} {
		t.Run(fmt.Sprint(c.missed, " ", c.every), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := openOn(t, Config{Store: &memory.Store{}})
				begin := time.Now()
				stop := fireOn(t, q)
				putSchedule(t, q, job.Schedule{Name: "a", Every: c.every, Missed: c.missed, Job: job.Job{Name: "a"}})
				<-time.After(10 * time.Minute)
				synctest.Wait()
				stop()
				before := len(ticked(t, q, "a", begin))
				<-time.After(gap)
				stop = fireOn(t, q)
				synctest.Wait()
				stop()
				if got := ticked(t, q, "a", begin)[before:]; !slices.Equal(got, c.fired) {
					t.Errorf("%d ticks fire afterwards: %v, want %v", len(got), got, c.fired)
				}
				i := getSchedule(t, q, "a")
				if i.Skipped != c.skipped || i.Fired != uint64(before+len(c.fired)) {
					t.Errorf("%d skipped and %d fired, want %d and %d", i.Skipped, i.Fired, c.skipped, before+len(c.fired))
				}
				if s := q.Stats().Schedules; s.Missed != c.skipped {
					t.Errorf("%d missed, want %d", s.Missed, c.skipped)
				}
				if i.Next.Sub(begin) <= time.Hour {
					t.Errorf("the next tick is at %v", i.Next.Sub(begin))
				}
			})
		})
	}
}

func TestScheduleOverlap(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			q := openOn(t, Config{Store: &memory.Store{Shared: shared}})
			feed := q.Events(100)
			go1 := make(chan struct{})
			workOn(t, q, newTeam(5, func(context.Context, bullpen.Task) ([]byte, error) {
				<-go1
				return nil, nil
			}), WorkConfig{})
			defer close(go1)
			fireOn(t, q)
			for _, name := range []string{"alone", "many"} {
				s := job.Schedule{Name: name, Every: time.Minute, Job: job.Job{Name: name}}
				if name == "alone" {
					s.Overlap = job.OverlapForbid
				}
				putSchedule(t, q, s)
			}
			<-time.After(150 * time.Second)
			synctest.Wait()
			alone, many := getSchedule(t, q, "alone"), getSchedule(t, q, "many")
			if alone.Fired != 1 || alone.Skipped != 1 || alone.LastState != "running" || many.Fired != 2 {
				t.Errorf("%+v\n%+v", alone, many)
			}
			if _, err := q.FireSchedule(t.Context(), "alone"); !errors.Is(err, job.ErrOverlap) || !strings.Contains(err.Error(), alone.LastJob) {
				t.Errorf("fired by hand: %v", err)
			}
			for range 3 {
				go1 <- struct{}{}
			}
			<-time.After(time.Minute)
			synctest.Wait()
			if alone = getSchedule(t, q, "alone"); alone.Fired != 2 || alone.Skipped != 1 {
				t.Errorf("after its end: %+v", alone)
			}
			if s := q.Stats().Schedules; s.Skipped != 1 {
				t.Errorf("%+v", s)
			}
			feed.Close()
			if all := kinds(feed); !slices.Contains(all, job.TickSkipped) {
				t.Errorf("the events %v", all)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// TestScheduleClock puts the clock back and forward: nothing fires twice, and what
// is jumped over is missed.
func TestScheduleClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := &skew{}
		q := openOn(t, Config{Store: skewed{&memory.Store{}, clock}})
		fireOn(t, q)
		begin := time.Now()
		putSchedule(t, q, job.Schedule{Name: "a", Every: 10 * time.Minute, Missed: job.MissedAll, Job: job.Job{Name: "a"}})
		pass := func(d time.Duration, want ...int) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			var all []time.Duration
			for _, m := range want {
				all = append(all, time.Duration(m)*time.Minute)
			}
			if got := ticked(t, q, "a", begin); !slices.Equal(got, all) {
				t.Errorf("%v, want %v", got, all)
			}
		}
		pass(25*time.Minute, 10, 20)
		clock.set(-20 * time.Minute) // 00:05 by this clock
		pass(20*time.Minute, 10, 20)
		pass(6*time.Minute, 10, 20, 30)
		clock.set(9 * time.Minute) // 01:00
		pass(2*time.Second, 10, 20, 30, 40, 50, 60)
	})
}

// TestScheduleFails has a store that takes no jobs for a while.
func TestScheduleFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &memory.Store{}
		q := openOn(t, Config{Store: s})
		feed := q.Events(1000)
		fireOn(t, q)
		begin := time.Now()
		putSchedule(t, q, job.Schedule{Name: "a", Every: 10 * time.Minute, Missed: job.MissedSkip, Job: job.Job{Name: "a"}})
		left := failing(s, "put", engine.Jobs, 1<<40, fmt.Errorf("%w: no room", engine.ErrFull))
		<-time.After(11 * time.Minute)
		synctest.Wait()
		if i := getSchedule(t, q, "a"); i.Fired != 0 || !strings.Contains(i.Err, "no room") {
			t.Errorf("while it fails: %+v", i)
		}
		left.Store(0)
		<-time.After(5 * time.Second)
		synctest.Wait()
		if i := getSchedule(t, q, "a"); i.Fired != 1 || i.Err != "" || !i.Last.Equal(begin.Add(10*time.Minute)) {
			t.Errorf("when it has room again: %+v", i)
		}
		left.Store(1 << 40)
		<-time.After(25 * time.Minute)
		left.Store(0)
		<-time.After(5 * time.Second)
		synctest.Wait()
		// The tick of 20 min was tried until that of 30 min, and that until now.
		if i := getSchedule(t, q, "a"); i.Fired != 2 || i.Skipped != 1 || !i.Last.Equal(begin.Add(30*time.Minute)) {
			t.Errorf("after two ticks: %+v", i)
		}
		if s := q.Stats().Schedules; s.Failed < 20 || s.Failed > 500 {
			t.Errorf("%d tries failed", s.Failed)
		}
		feed.Close()
		failed := 0
		for e := range feed.C {
			if e.Kind == job.ScheduleFailed {
				failed++
			}
		}
		if failed < 2 || failed > 5 {
			t.Errorf("%d events say so, want one for each tick", failed)
		}
	})
}
