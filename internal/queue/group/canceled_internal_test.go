package group

import (
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
	"github.com/bullpen-run/bullpen/job"
)

// deaf is a receipt that notes its calls.
type deaf struct{ acked bool }

func (d *deaf) Ack()                            { d.acked = true }
func (*deaf) End(_ []engine.Put, _ func(error)) {}
func (*deaf) Nak(time.Duration)                 {}
func (*deaf) Extend()                           {}
func (*deaf) Begin()                            {}

// call is a call of Work that takes nothing.
type call struct{}

func (call) Signal()     {}
func (call) Ended() bool { return false }

// TestCanceledOnItsWay has a job with a group canceled while it is on its way from the
// store: nobody finds it then, and it must not be kept to start later.
func TestCanceledOnItsWay(t *testing.T) {
	t.Parallel()
	q := openGroups(t)
	b, err := q.Enter("default", call{}, job.GroupLimits{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Leave(call{})
	s, err := q.Prepare(&job.Job{Group: "a"})
	if err != nil {
		t.Fatal(err)
	}
	m := s.Message()
	q.NoteCanceled(s.ID)
	var r deaf
	b.arrived(job.Normal, engine.Delivery{Message: engine.Message{Stream: engine.Jobs, Subject: m.Subject, Data: m.Data, Seq: 1 << 40}, Receipt: &r, Deliveries: 1})
	if !r.acked {
		t.Error("it is kept")
	}
}
