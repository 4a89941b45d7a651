package queue

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine/memory"
	"github.com/bullpen-run/bullpen/job"
)

// TestScheduleChanges pauses, resumes, replaces, removes and fires by hand.
func TestScheduleChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := openOn(t, Config{Store: &memory.Store{}})
		fireOn(t, q)
		begin := time.Now()
		s := job.Schedule{Name: "a.b", Every: 10 * time.Second, Job: job.Job{Name: "a"}}
		putSchedule(t, q, s)
		until := func(seconds int) {
			<-time.After(time.Until(begin.Add(time.Duration(seconds) * time.Second)))
			synctest.Wait()
		}
		want := func(what string, seconds ...int) {
			t.Helper()
			all := inSeconds(seconds)
			if got := ticked(t, q, "a.b", begin); !slices.Equal(got, all) {
				t.Errorf("%s: %v, want %v", what, got, all)
			}
		}
		until(25)
		i, err := q.PauseSchedule(t.Context(), "a.b", true)
		if err != nil || !i.Paused || !i.Next.IsZero() || i.Fired != 2 {
			t.Errorf("paused: %+v, %v", i, err)
		}
		until(127)
		want("paused", 10, 20)
		if s := q.Stats().Schedules; s.Known != 0 {
			t.Errorf("%d are known, want none that is paused", s.Known)
		}
		if i, err = q.PauseSchedule(t.Context(), "a.b", false); err != nil || !i.Next.Equal(begin.Add(130*time.Second)) || i.Skipped != 0 {
			t.Errorf("resumed: %+v, %v", i, err)
		}
		until(145)
		want("resumed", 10, 20, 130, 140)
		s.Job.Payload = []byte("other")
		if i = putSchedule(t, q, s); !i.Next.Equal(begin.Add(150*time.Second)) || i.Fired != 4 {
			t.Errorf("with another job: %+v", i)
		}
		until(146)
		if ref, err := q.FireSchedule(t.Context(), "a.b"); err != nil || ref.State != job.Queued {
			t.Errorf("by hand: %v, %v", ref, err)
		} else if i = getSchedule(t, q, "a.b"); i.LastJob != ref.ID || i.Fired != 4 {
			t.Errorf("after it was fired by hand: %+v", i)
		}
		until(155)
		want("with another job", 10, 20, 130, 140, 146, 150)
		s.Every = 20 * time.Second
		if i = putSchedule(t, q, s); !i.Next.Equal(begin.Add(175 * time.Second)) {
			t.Errorf("with another rule: %+v", i)
		}
		until(180)
		want("with another rule", 10, 20, 130, 140, 146, 150, 175)
		if err := q.RemoveSchedule(t.Context(), "a.b"); err != nil {
			t.Error(err)
		}
		until(300)
		want("removed", 10, 20, 130, 140, 146, 150, 175)
	})
}

func inSeconds(seconds []int) []time.Duration {
	var all []time.Duration
	for _, s := range seconds {
		all = append(all, time.Duration(s)*time.Second)
	}
	return all
}

// TestScheduleIsNotThere asks for one that was removed, and one of no name.
func TestScheduleIsNotThere(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	putSchedule(t, q, job.Schedule{Name: "a.b", Every: time.Hour, Job: job.Job{Name: "a"}})
	if err := q.RemoveSchedule(t.Context(), "a.b"); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"remove": q.RemoveSchedule(t.Context(), "a.b"),
		"get":    second(q.GetSchedule(t.Context(), "a.b")),
		"pause":  second(q.PauseSchedule(t.Context(), "a.b", true)),
		"fire":   second(q.FireSchedule(t.Context(), "a.b")),
		"odd":    second(q.GetSchedule(t.Context(), "A b")),
	} {
		if !errors.Is(err, job.ErrNoSchedule) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if all, err := q.ListSchedules(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("there are still %v, %v", all, err)
	}
}
