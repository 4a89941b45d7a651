package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/engine"
)

// deaf is a receipt that notes what it is told.
type deaf struct{ acked bool }

func (d *deaf) Ack()            { d.acked = true }
func (*deaf) Nak(time.Duration) {}
func (*deaf) Extend()           {}
func (*deaf) Begin()            {}

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
