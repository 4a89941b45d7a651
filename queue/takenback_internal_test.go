package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/job"
)

// TestCanceledKeepsWhatItWas has jobs of all kinds canceled: what the outcome says of
// the job is what the job said.
func TestCanceledKeepsWhatItWas(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	s, err := q.jobs.Prepare(&job.Job{Name: "report", Group: "a", Bury: "bury", Compensate: "undo", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	s.Schedule, s.Tick = "nightly", moment(10)
	if _, err := q.jobs.EnqueueStored(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := q.Cancel(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	i, err := q.Get(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if i.Schedule != "nightly" || !i.Tick.Equal(s.Tick) || i.Group != "a" || i.Bury != "bury" || i.Compensate != "undo" || i.Key != "k" {
		t.Errorf("the outcome says %+v", i)
	}
	if _, err := q.Wait(t.Context(), s.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// halting is a team whose Capacity waits while it is halted, and Work with it.
type halting struct {
	*team
	halted sync.RWMutex
	asked  chan struct{} // one for each question, as far as there is room
}

func (h *halting) Capacity() int {
	select {
	case h.asked <- struct{}{}:
	default:
	}
	h.halted.RLock()
	defer h.halted.RUnlock()
	return h.team.Capacity()
}

// TestCanceledBetweenStoreAndHand has a job canceled when the store has delivered it and
// no hand has it yet: it must not start.
func TestCanceledBetweenStoreAndHand(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	h := &halting{asked: make(chan struct{}, 1)}
	var ran atomic.Bool
	h.team = newTeam(2, func(_ context.Context, task bullpen.Task) ([]byte, error) {
		switch task.Name {
		case "canceled":
			ran.Store(true)
		case "first":
			h.halted.Lock() // Work halts when it hears of the end of this job
			select {
			case <-h.asked:
			default:
			}
		}
		return nil, nil
	})
	workOn(t, q, h, WorkConfig{})
	first := enqueued(t, q, job.Job{Name: "first"})
	for h.most.Load() == 0 || h.running.Load() > 0 {
		<-time.After(time.Millisecond)
	}
	<-h.asked
	if _, err := q.Wait(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	ref := enqueued(t, q, job.Job{Name: "canceled"})
	delivered := func() bool {
		depths, err := q.Depth(t.Context(), "default")
		return err != nil || slices.ContainsFunc(depths, func(d job.Depth) bool { return d.Taken > 0 })
	}
	for !delivered() {
		<-time.After(time.Millisecond)
	}
	if err := q.Cancel(t.Context(), ref.ID); err != nil {
		t.Error(err)
	}
	h.halted.Unlock()
	if _, err := q.Wait(t.Context(), enqueued(t, q, job.Job{Name: "last"}).ID); err != nil {
		t.Error(err)
	}
	if ran.Load() {
		t.Error("the canceled job has run")
	}
}
