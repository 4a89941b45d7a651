package enginetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func testNakNow(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	fx.jobs(normal, 1)
	h := fx.take(normal)
	for want := 1; want <= 5; want++ {
		d := h.next()
		if d.Deliveries != want || d.Again != (want > 1) {
			t.Errorf("delivery %d: Deliveries %d, Again %v", want, d.Deliveries, d.Again)
		}
		d.Nak(0)
	}
	h.next().Ack()
}

func testNakWithDelay(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	subjects := fx.jobs(normal, 2)
	h := fx.take(normal)
	const delay = 300 * time.Millisecond
	d := h.next()
	asked := time.Now()
	d.Nak(delay)
	other := h.next()
	if other.Subject != subjects[1] {
		t.Errorf("%s was delivered, want the other one: this was given back for %v", other.Subject, delay)
	}
	other.Ack()
	d = h.next()
	if took := d.came.Sub(asked); d.Subject != subjects[0] || took < delay || took > delay+f.Late {
		t.Errorf("%s came after %v, want %s after %v", d.Subject, took, subjects[0], delay)
	}
	d.Ack()
}

func testRedeliveryFirst(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	subjects := fx.jobs(normal, 3)
	h := fx.take(normal)
	h.next().Nak(0)
	until(t, time.Now().Add(f.Late)) // by then the engine has received it
	for _, want := range subjects {
		d := h.next()
		if d.Subject != want {
			t.Errorf("%s was delivered, want %s: the one that was given back comes before those that wait", d.Subject, want)
		}
		d.Ack()
	}
}

func testLeaseEnds(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{Lease: f.Lease})
	h, other := fx.take(normal), fx.take(normal)
	subjects := fx.jobs(normal, 1)
	before := time.Now()
	first := h.next()
	h.stop() // only the other one has requests
	d := other.next()
	took := d.came.Sub(before)
	if d.Subject != subjects[0] || d.Deliveries != 2 || !d.Again {
		t.Errorf("%+v was delivered, want %s for the second time", d.Delivery, subjects[0])
	}
	if took < f.Lease || d.came.Sub(first.came) > f.Lease+f.Late {
		t.Errorf("the lease of %v ended after %v", f.Lease, took)
	}
	d.Ack()
	eventually(t, "the job is gone", func() bool { return len(fx.scan(engine.Jobs, ">")) == 0 })
}

func testExtend(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{Lease: f.Lease})
	h, other := fx.take(normal), fx.take(normal)
	fx.jobs(normal, 1)
	first := h.next()
	other.request(1, true)
	var last time.Time
	renew := time.NewTicker(f.Lease / 4)
	defer renew.Stop()
	for end := time.Now().Add(3 * f.Lease); time.Now().Before(end); <-renew.C {
		if gap := time.Since(last); !last.IsZero() && gap > f.Lease*3/4 {
			t.Skipf("this machine is too busy: it took %v to renew a lease of %v", gap, f.Lease)
		}
		last = time.Now()
		first.Extend()
		if d, ok := other.first(); ok {
			t.Fatalf("%s was delivered again, for the time %d, although its lease was extended", d.Subject, d.Deliveries)
		}
	}
	d := other.next()
	if took := d.came.Sub(last); took < f.Lease || took > f.Lease+f.Late {
		t.Errorf("%s was delivered again %v after its lease was extended for the last time, want %v", d.Subject, took, f.Lease)
	}
	d.Ack()
}

func testPause(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	pause(fx, true) // creates the consumer
	h := fx.take(normal)
	subjects := fx.jobs(normal, 2)
	h.nothing("while the consumer is paused")
	h.request(1, true)
	waiting(fx, 2)
	other := engine.Consumer{Queue: normal.Queue, Priority: "high"}
	fx.jobs(other, 1)
	fx.take(other).next().Ack() // others are not paused
	wantPaused(fx, normal)
	if d, ok := h.first(); ok {
		t.Errorf("%s was delivered while the consumer is paused", d.Subject)
	}
	pause(fx, false)
	for _, want := range subjects {
		if d := h.next(); d.Subject != want {
			t.Errorf("%s was delivered, want %s", d.Subject, want)
		} else {
			d.Ack()
		}
	}
	eventually(t, "Depth says that it is not paused", func() bool { return !fx.depth(normal).Paused })
	wantPaused(fx)
}

// wantPaused checks that exactly these consumers are paused.
func wantPaused(fx *fixture, want ...engine.Consumer) {
	fx.t.Helper()
	eventually(fx.t, fmt.Sprintf("just %v are paused", want), func() bool {
		all, err := fx.Paused(fx.ctx())
		if err != nil {
			fx.t.Fatalf("Paused = %v", err)
		}
		return slices.Equal(all, want)
	})
}

// waiting checks that a consumer is paused and has n jobs, none of them handed out. Of
// several servers, the one that counts may not be the one that stored them.
func waiting(fx *fixture, n int) {
	fx.t.Helper()
	var d engine.Depth
	defer func() {
		if fx.t.Failed() {
			fx.t.Logf("the last Depth was %+v", d)
		}
	}()
	eventually(fx.t, fmt.Sprintf("Depth says paused, with %d that wait and none taken", n), func() bool {
		d = fx.depth(normal)
		return d.Paused && d.Waiting == n && d.Taken == 0
	})
}

func pause(fx *fixture, paused bool) {
	fx.t.Helper()
	if err := fx.Pause(fx.ctx(), normal, paused); err != nil {
		fx.t.Fatalf("Pause %v = %v", paused, err)
	}
}

func testPauseReopen(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	pause(fx, true)
	subjects := fx.jobs(normal, 1)
	fx.reopen()
	wantPaused(fx, normal)
	waiting(fx, 1)
	h := fx.take(normal)
	h.nothing("while the consumer is paused")
	pause(fx, false)
	fx.reopen()
	if d := take(t, fx.Engine, normal).next(); d.Subject != subjects[0] {
		t.Errorf("%s was delivered, want %s", d.Subject, subjects[0])
	}
}
