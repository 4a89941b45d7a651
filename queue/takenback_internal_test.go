package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// deaf is a receipt that notes what it is told.
type deaf struct{ acked bool }

func (d *deaf) Ack()                            { d.acked = true }
func (*deaf) End(_ []engine.Put, _ func(error)) {}
func (*deaf) Nak(time.Duration)                 {}
func (*deaf) Extend()                           {}
func (*deaf) Begin()                            {}

// TestCanceledOnItsWay has a job with a group canceled while it is on its way from the
// store: nobody finds it then, and it must not be kept to start later.
func TestCanceledOnItsWay(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	release := make(chan struct{})
	defer close(release)
	workOn(t, q, newTeam(1, func(context.Context, bullpen.Task) ([]byte, error) {
		<-release
		return nil, nil
	}), WorkConfig{})
	enqueued(t, q, Job{Group: "a"})
	for q.yard("default") == nil {
		<-time.After(time.Millisecond)
	}
	s, err := q.prepare(&Job{Group: "a"})
	if err != nil {
		t.Fatal(err)
	}
	m := s.message()
	q.interrupt(s.id)
	var r deaf
	q.yard("default").arrived(Normal, engine.Delivery{Message: engine.Message{Stream: engine.Jobs, Subject: m.Subject, Data: m.Data, Seq: 1 << 40}, Receipt: &r, Deliveries: 1})
	if !r.acked {
		t.Error("it is kept")
	}
}

// TestCanceledKeepsWhatItWas has jobs of all kinds canceled: what the outcome says of
// the job is what the job said.
func TestCanceledKeepsWhatItWas(t *testing.T) {
	t.Parallel()
	q := openOn(t, Config{})
	s, err := q.prepare(&Job{Name: "report", Group: "a", Bury: "bury", Compensate: "undo", Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	s.schedule, s.tick = "nightly", stamp(10)
	if _, err := q.enqueue(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := q.Cancel(t.Context(), s.id); err != nil {
		t.Fatal(err)
	}
	i, err := q.Get(t.Context(), s.id)
	if err != nil {
		t.Fatal(err)
	}
	if i.Schedule != "nightly" || !i.Tick.Equal(s.tick) || i.Group != "a" || i.Bury != "bury" || i.Compensate != "undo" || i.Key != "k" {
		t.Errorf("the outcome says %+v", i)
	}
	if _, err := q.Wait(t.Context(), s.id); !errors.Is(err, context.Canceled) {
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
	enqueued(t, q, Job{Name: "first"})
	for h.most.Load() == 0 || h.running.Load() > 0 {
		<-time.After(time.Millisecond)
	}
	<-h.asked
	ref := enqueued(t, q, Job{Name: "canceled"})
	delivered := func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		for r := range q.runners {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.inbox) > 0
		}
		return false
	}
	for !delivered() {
		<-time.After(time.Millisecond)
	}
	if err := q.Cancel(t.Context(), ref.ID); err != nil {
		t.Error(err)
	}
	h.halted.Unlock()
	if _, err := q.Wait(t.Context(), enqueued(t, q, Job{Name: "last"}).ID); err != nil {
		t.Error(err)
	}
	if ran.Load() {
		t.Error("the canceled job has run")
	}
}
