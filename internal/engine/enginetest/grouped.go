package enginetest

import (
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// grouped takes the jobs of the queue mail that have a group.
var grouped = engine.Consumer{Queue: "mail", Priority: "normal", Grouped: true}

// testGroupedApart puts jobs with a group and without: each consumer has its own, and all
// are found in the same ways.
func testGroupedApart(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	with, without := fx.jobs(grouped, 3), fx.jobs(normal, 2)
	for _, of := range []struct {
		consumer engine.Consumer
		want     []string
	}{{grouped, with}, {normal, without}} {
		if d := fx.depth(of.consumer); d.Waiting != len(of.want) || d.Taken != 0 {
			t.Errorf("Depth of %+v = %+v, want %d waiting", of.consumer, d, len(of.want))
		}
		h := fx.take(of.consumer)
		for _, want := range of.want {
			d := h.next()
			c, id, ok := engine.ParseJob(d.Subject)
			if d.Subject != want || !ok || c != of.consumer || id != engine.LastToken(want) {
				t.Errorf("%+v is handed out %s, want %s", of.consumer, d.Subject, want)
			}
			fx.wantData(engine.Jobs, "job.*.*."+id, want)
			d.Ack()
		}
		h.nothing("when all were acknowledged")
	}
	if found := fx.scan(engine.Jobs, "job.mail.*.*"); len(found) != 0 {
		t.Errorf("%d jobs are left, want none", len(found))
	}
}

// testGroupedBegun closes an engine while jobs are handed out. They come again, and those
// that had begun are known.
func testGroupedBegun(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{Lease: f.Lease})
	subjects := fx.jobs(grouped, 3)
	h := fx.take(grouped)
	for range subjects {
		d := h.next()
		if d.Orphan {
			t.Errorf("%s is an orphan, and nobody had it", d.Subject)
		}
		switch d.Subject {
		case subjects[1]:
			d.Begin()
			d.Begin()
		case subjects[2]:
			d.Begin()
			d.Ack()
			d.Begin()
		}
	}
	h.stop()
	shared := fx.Shared()
	fx.reopen()
	h = fx.take(grouped)
	for range 2 {
		d := h.next()
		began := d.Subject == subjects[1]
		// An external server only reports the number of deliveries.
		if d.Orphan != began && !(shared && d.Orphan) {
			t.Errorf("%s comes again as %+v, want it an orphan only if it had begun (%v)", d.Subject, d.Delivery, began)
		}
		d.Ack()
	}
	h.nothing("when all were acknowledged")
}
