package enginetest

import (
	"errors"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// end ends a delivery with some puts and returns the error.
func end(t *testing.T, d engine.Delivery, puts ...engine.Put) error {
	t.Helper()
	answers := make(chan error, 2)
	d.End(puts, func(err error) { answers <- err })
	timer := time.NewTimer(Patience)
	defer timer.Stop()
	select {
	case err := <-answers:
		t.Cleanup(func() {
			if len(answers) > 0 {
				t.Error("End: done was called more than once")
			}
		})
		return err
	case <-timer.C:
		t.Fatalf("no answer to an End within %v", Patience)
		return nil
	}
}

// outcomeOf returns the outcome of a job, with what is stored together with it.
func outcomeOf(d engine.Delivery) []engine.Put {
	id := engine.LastToken(d.Subject)
	return []engine.Put{
		{Stream: engine.Dead, Subject: "dead.mail." + id, Data: []byte("evidence"), Durable: true},
		{Stream: engine.Outcomes, Subject: "out." + id, Data: []byte("outcome"), Durable: true, New: true},
		{Stream: engine.State, Subject: "key.mail." + id, Data: []byte("key"), TTL: time.Hour},
	}
}

func testEnd(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{Lease: f.Lease})
	fx.jobs(normal, 4)
	h := fx.take(normal)
	for n := range 3 { // the evidence, the outcome, the key: as many as n says
		d := h.next().Delivery
		puts := outcomeOf(d)[:n+1]
		if err := end(t, d, puts...); err != nil {
			t.Fatalf("End = %v, want nil", err)
		}
		for _, p := range puts {
			if m, err := fx.Get(fx.ctx(), p.Stream, p.Subject); err != nil || string(m.Data) != string(p.Data) {
				t.Errorf("Get %s = %q, %v, want %q", p.Subject, m.Data, err, p.Data)
			}
		}
		eventually(t, "End removes "+d.Subject, func() bool {
			_, err := fx.Get(fx.ctx(), engine.Jobs, d.Subject)
			return errors.Is(err, engine.ErrNotFound)
		})
	}
	if err := end(t, h.next().Delivery); err != nil {
		t.Errorf("End without anything to store = %v, want nil", err)
	}
	eventually(t, "nothing is taken or waits", func() bool { return fx.depth(normal) == engine.Depth{} })
	if d, ok := h.by(time.Now().Add(f.Lease + f.Late)); ok {
		t.Errorf("%s was delivered again after its End", d.Subject)
	}
	fx.reopen()
	if left := fx.scan(engine.Jobs, ">"); len(left) != 0 {
		t.Errorf("%d jobs are left after a restart", len(left))
	}
}

func testEndRefused(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	fx.jobs(normal, 1)
	h := fx.take(normal)
	d := h.next().Delivery
	puts := outcomeOf(d)
	fx.message(engine.Outcomes, puts[1].Subject, "of another")
	if err := end(t, d, puts...); !errors.Is(err, engine.ErrConflict) {
		t.Fatalf("End = %v with an outcome that is there, want ErrConflict", err)
	}
	if m, err := fx.Get(fx.ctx(), engine.Outcomes, puts[1].Subject); err != nil || string(m.Data) != "of another" {
		t.Errorf("Get = %q, %v, want the outcome that was there", m.Data, err)
	}
	if _, err := fx.Get(fx.ctx(), engine.State, puts[2].Subject); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("Get = %v of what comes after the put that was refused, want ErrNotFound", err)
	}
	if depth := fx.depth(normal); depth.Taken != 1 {
		t.Errorf("Depth = %+v after a refused End, want that the job is still taken", depth)
	}
	d.Nak(0)
	again := h.next()
	if again.Subject != d.Subject || again.Deliveries != 2 {
		t.Errorf("%s came, delivery %d, want %s a second time", again.Subject, again.Deliveries, d.Subject)
	}
	again.Ack()
	if err := end(t, again.Delivery, engine.Put{Stream: engine.State, Subject: "set.late.one", Data: []byte("late")}); err != nil {
		t.Errorf("End after the Ack = %v, want that its messages are stored", err)
	}
	if _, err := fx.Get(fx.ctx(), engine.State, "set.late.one"); err != nil {
		t.Errorf("Get = %v, want what End has stored", err)
	}
}
