package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/run"
	"github.com/bullpen-run/bullpen/job"
)

// shared is a team that others use too.
type shared struct {
	*team

	asked atomic.Int64 // calls of Capacity
	ended atomic.Bool
}

func (s *shared) Capacity() int {
	s.asked.Add(1)
	if s.ended.Load() {
		return 0
	}
	return s.team.Capacity()
}

func (s *shared) take() { s.running.Add(1) }
func (s *shared) free() { s.running.Add(-1) }

// telling is one that says when there is room again.
type telling struct {
	*shared

	signal bullpen.RoomSignal
	waits  atomic.Int64 // calls of Room
}

func (s *telling) Room() <-chan struct{} {
	s.waits.Add(1)
	c := s.signal.Next()
	if s.team.Capacity() > 0 || s.ended.Load() {
		s.signal.Notify()
	}
	return c
}

func (s *telling) free() {
	s.shared.free()
	s.signal.Notify()
}

// tasked is an executor of which others take places.
type tasked interface {
	bullpen.Executor
	take()
	free()
}

// newShared makes an executor of so many places, and with signals one that notifies when
// there is room again. Its jobs take an hour, but for those of the name "short".
func newShared(size int, signals bool) (tasked, *shared) {
	s := &shared{}
	s.team = newTeam(size, func(ctx context.Context, t bullpen.Task) ([]byte, error) {
		if t.Name == "short" {
			return nil, nil
		}
		select {
		case <-time.After(time.Hour):
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	})
	if !signals {
		return s, s
	}
	return &telling{shared: s}, s
}

// TestRoomMadeByOthers has an executor that is full of others' work, with one job of
// its own in it or with none: when they have left, the next job is taken soon.
func TestRoomMadeByOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		signals bool
		own     int // jobs that it has in the executor
		soon    time.Duration
		asked   int64 // the most calls of Capacity in the hour before
	}{
		{"signals with a job of its own", true, 1, 5 * time.Millisecond, 20},
		{"signals with two of its own", true, 2, 5 * time.Millisecond, 20},
		{"no signals with a job of its own", false, 1, 2 * run.RoomPause, 3 * int64(time.Minute/run.RoomPause)},
		{"no signals without one", false, 0, run.BusyPatience, 3 * int64(time.Minute/run.BusyPause)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := openOn(t, Config{})
				e, s := newShared(c.own+1, c.signals)
				workOn(t, q, e, WorkConfig{Grace: -1})
				for range c.own {
					enqueued(t, q, job.Job{Name: "long"})
				}
				synctest.Wait()
				e.take()
				<-time.After(time.Minute)
				before := s.asked.Load()
				ref := enqueued(t, q, job.Job{Name: "short"})
				if c.own == 0 { // it is pressed into the executor before long
					<-time.After(run.BusyPatience / 2)
				} else {
					<-time.After(time.Minute)
				}
				if n := s.asked.Load() - before; n > c.asked {
					t.Errorf("the executor was asked %d times for its room while nothing happened, want %d at most", n, c.asked)
				}
				e.free()
				ctx, cancel := context.WithTimeout(t.Context(), c.soon)
				defer cancel()
				if _, err := q.Wait(ctx, ref.ID); err != nil {
					t.Errorf("a job beside a free place, %v after there is room: %v", c.soon, err)
				}
			})
		})
	}
}

// fleeting is an executor that others leave right after it has said that it is full.
type fleeting struct {
	tasked

	leave atomic.Bool // they do so at the next look
}

func (f *fleeting) Capacity() int {
	n := f.tasked.Capacity()
	if n == 0 && f.leave.CompareAndSwap(true, false) {
		f.free()
	}
	return n
}

func (f *fleeting) Room() <-chan struct{} { return bullpen.Room(f.tasked) }

// TestRoomBetweenTwoLooks has others leave the executor between the look that finds no
// place for a job and the next one, while nothing else happens.
func TestRoomBetweenTwoLooks(t *testing.T) {
	t.Parallel()
	for _, group := range []string{"", "g"} {
		for _, signals := range []bool{true, false} {
			t.Run(fmt.Sprintf("group %q, signals %v", group, signals), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					q := openOn(t, Config{})
					shared, _ := newShared(2, signals)
					e := &fleeting{tasked: shared}
					workOn(t, q, e, WorkConfig{Grace: -1})
					enqueued(t, q, job.Job{Name: "long"})
					synctest.Wait()
					e.take()
					<-time.After(time.Minute)
					e.leave.Store(true)
					ref := enqueued(t, q, job.Job{Name: "short", Group: group})
					ctx, cancel := context.WithTimeout(t.Context(), 2*run.RoomPause)
					defer cancel()
					if _, err := q.Wait(ctx, ref.ID); err != nil {
						t.Errorf("a job beside a free place: %v", err)
					}
				})
			})
		}
	}
}

// TestRoomOfAnEmptyCall: a call of Work without a job in the executor hears of room at
// once, too.
func TestRoomOfAnEmptyCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := openOn(t, Config{})
		e, s := newShared(1, true)
		e.take()
		workOn(t, q, e, WorkConfig{Grace: -1})
		ref := enqueued(t, q, job.Job{Name: "short"})
		<-time.After(run.BusyPatience / 2)
		if n := s.asked.Load(); n > 20 {
			t.Errorf("the executor was asked %d times for its room, though it says when there is some", n)
		}
		e.free()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if _, err := q.Wait(ctx, ref.ID); err != nil {
			t.Errorf("a job beside a free place: %v", err)
		}
	})
}

// TestRoomOfWhoEnds: an executor that has begun to end, whose channel is closed always,
// is not asked again and again.
func TestRoomOfWhoEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := openOn(t, Config{})
		e, s := newShared(1, true)
		stop := workOn(t, q, e, WorkConfig{Grace: -1})
		enqueued(t, q, job.Job{Name: "long"})
		synctest.Wait()
		s.ended.Store(true)
		e.(*telling).signal.Notify()
		before := s.asked.Load()
		<-time.After(time.Minute)
		if n := s.asked.Load() - before; n > 4*int64(time.Minute/run.BusyPause) {
			t.Errorf("an executor that ends was asked %d times in a minute", n)
		}
		if err := stop(); err != nil && !errors.Is(err, bullpen.ErrClosed) {
			t.Error(err)
		}
	})
}
