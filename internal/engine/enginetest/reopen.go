package enginetest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func testReopen(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	last := map[engine.Stream]uint64{}
	kept := map[engine.Stream]string{}
	for _, s := range engine.Streams() {
		kept[s] = fresh(s)
		fx.put(engine.Put{Stream: s, Subject: kept[s], Data: []byte("kept"), Durable: true})
		last[s] = fx.message(s, fresh(s), "") // deletes the last message of the stream
		if err := fx.Delete(fx.ctx(), s, last[s]); err != nil {
			t.Fatal(err)
		}
	}
	fx.reopen()
	for _, s := range engine.Streams() {
		fx.wantData(s, kept[s], "kept")
		if found := fx.scan(s, ">"); len(found) != 1 {
			t.Errorf("%v holds %d messages after opening again, want 1", s, len(found))
		}
		if seq := fx.message(s, fresh(s), ""); seq <= last[s] {
			t.Errorf("%v uses sequence number %d again, %d was the last", s, seq, last[s])
		}
	}
	h := fx.take(normal)
	if d := h.next(); d.Subject != kept[engine.Jobs] || !d.Old {
		t.Errorf("%s, Old %v, was delivered, want %s, which is old", d.Subject, d.Old, kept[engine.Jobs])
	}
	if d := h.next(); d.Old || d.Again {
		t.Errorf("%s, Old %v, Again %v, was delivered, want one that was put just now", d.Subject, d.Old, d.Again)
	}
}

func testReopenTaken(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{Lease: f.Lease})
	subjects := fx.jobs(normal, 2)
	h := fx.take(normal)
	before := time.Now()
	taken := h.next()
	h.next().Ack()
	eventually(t, "the other is gone", func() bool { return len(fx.scan(engine.Jobs, ">")) == 1 })
	fx.reopen()
	reopened := time.Now()
	taken.Ack() // too late: its engine was closed
	d := fx.take(normal).next()
	if d.Subject != subjects[0] || !d.Old || !d.Again {
		t.Errorf("%s, Old %v, Again %v, was delivered, want %s again", d.Subject, d.Old, d.Again, subjects[0])
	}
	if d.came.After(reopened.Add(f.Lease + f.Late)) {
		t.Errorf("it came %v after the store was opened again, want it within the lease of %v", d.came.Sub(reopened), f.Lease)
	}
	t.Logf("it came again %v after it was first asked for, %v after the store was opened again", d.came.Sub(before), d.came.Sub(reopened))
	d.Ack()
}

// testReopenAtOnce checks that everything handed out is available again at once when a
// store that is not shared is opened.
func testReopenAtOnce(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{Lease: time.Hour})
	if fx.Shared() {
		t.Skip("other nodes may have what was handed out")
	}
	subjects := fx.jobs(normal, 20)
	h := fx.take(normal)
	for n := range subjects {
		if d := h.next(); n%5 == 4 {
			d.Ack()
		}
	}
	eventually(t, "some are gone", func() bool { return len(fx.scan(engine.Jobs, ">")) == 16 })
	for range 2 { // the second time nothing is left of the first one
		fx.reopen()
		h = fx.take(normal)
		for n, subject := range subjects {
			if n%5 == 4 {
				continue
			}
			if d := h.next(); d.Subject != subject || !d.Old || !d.Again || !d.Orphan {
				t.Fatalf("%s, Old %v, Again %v, Orphan %v, was delivered, want %s again", d.Subject, d.Old, d.Again, d.Orphan, subject)
			}
		}
		h.nothing("more than was handed out")
	}
	pause(fx, true)
	fx.reopen()
	h = fx.take(normal)
	h.nothing("while the consumer is paused")
	pause(fx, false)
	for range 16 {
		h.next().Ack()
	}
	more := fx.jobs(normal, 1)
	if d := h.next(); d.Subject != more[0] || d.Old || d.Again || d.Orphan {
		t.Errorf("%s, Old %v, Again %v, Orphan %v, was delivered, want one that was put just now", d.Subject, d.Old, d.Again, d.Orphan)
	}
}

func testNamespaces(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	first := fx.options
	fx.message(engine.State, "set.name", "first")
	fx.jobs(normal, 1)
	fx.options.Namespace += "_b"
	fx.reopen()
	if m, err := fx.Get(fx.ctx(), engine.State, "set.name"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("Get = %q, %v in another namespace, want ErrNotFound", m.Data, err)
	}
	fx.take(normal).nothing("in another namespace")
	fx.put(engine.Put{Stream: engine.State, Subject: "set.name", Data: []byte("second"), New: true})
	fx.options = first
	fx.reopen()
	fx.wantData(engine.State, "set.name", "first")
	if n := len(fx.scan(engine.Jobs, ">")); n != 1 {
		t.Errorf("%d jobs are there, want 1", n)
	}
}

func testInfo(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	fx.jobs(normal, 3)
	fx.message(engine.State, fresh(engine.State), "data")
	i, err := fx.Info(fx.ctx())
	if err != nil {
		t.Fatalf("Info = %v", err)
	}
	if !slices.Contains([]string{"memory", "embedded", "server"}, i.Kind) || i.Durability == "" || i.Replicas < 1 {
		t.Errorf("Info = %+v, want kind, durability and replicas", i)
	}
	for s, want := range map[engine.Stream]int64{engine.Jobs: 3, engine.Outcomes: 0, engine.State: 1, engine.Dead: 0} {
		u, ok := i.Streams[s]
		if !ok || u.Messages != want || (u.Bytes > 0) != (want > 0) || want > 0 && u.Last-u.First+1 != uint64(want) {
			t.Errorf("Info says %v of %v, want %d messages", u, s, want)
		}
	}
	select {
	case <-fx.Failed():
		t.Error("Failed is closed")
	default:
	}
	if err := fx.Err(); err != nil {
		t.Errorf("Err = %v", err)
	}
}

func testCloseAnswersPuts(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	answers := map[string]*answer{}
	for range 300 {
		subject := fresh(engine.Outcomes)
		answers[subject] = fx.give(engine.Put{Stream: engine.Outcomes, Subject: subject, Durable: true})
	}
	fx.shut(fx.Engine)
	for subject, a := range answers {
		select {
		case <-a.done:
		default:
			t.Fatalf("Close has returned and Put %s has no answer", subject)
		}
	}
	fx.Engine = fx.another(fx.options)
	there := map[string]bool{}
	for _, m := range fx.scan(engine.Outcomes, ">") {
		there[m.Subject] = true
	}
	for subject, a := range answers {
		if _, err := a.wait(t); err != nil {
			t.Errorf("Put %s before Close = %v, want it stored", subject, err)
		} else if !there[subject] {
			t.Errorf("Put %s was confirmed and is not there", subject)
		}
	}
}

func testCloseEndsCallbacks(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	h := takeAndAck(t, fx.Engine, normal)
	h.request(1000, true)
	fx.jobs(normal, 100)
	fx.shut(fx.Engine)
	h.mu.Lock()
	h.stopped = true // from here on a call is an error
	h.mu.Unlock()
	h.taker.Request(1, false)
	fx.Engine = fx.another(fx.options)
	fx.jobs(normal, 1)
}

func testClosed(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	h := fx.take(normal)
	fx.jobs(normal, 1)
	d := h.next()
	fx.shut(fx.Engine)
	fx.shut(fx.Engine) // a second time does no harm
	d.Extend()
	d.Nak(0)
	d.Ack()
	h.stop()
	ctx := context.Background()
	calls := map[string]func() error{
		"Put": func() error {
			_, err := fx.give(engine.Put{Stream: engine.State, Subject: "set.x"}).wait(t)
			return err
		},
		"Get":    func() error { _, err := fx.Get(ctx, engine.State, "set.x"); return err },
		"Delete": func() error { return fx.Delete(ctx, engine.State, 1) },
		"Scan":   func() error { _, err := fx.Scan(ctx, engine.State, ">", 0, 1); return err },
		"Take":   func() error { _, err := fx.Take(normal, h.deliver, h.back); return err },
		"Depth":  func() error { _, err := fx.Depth(ctx, normal); return err },
		"Pause":  func() error { return fx.Pause(ctx, normal, true) },
		"Send":   func() error { return fx.Send("hint", nil) },
		"Listen": func() error { _, err := fx.Listen("hint", func(string, []byte) {}); return err },
		"Info":   func() error { _, err := fx.Info(ctx); return err },
	}
	for name, call := range calls {
		if err := within(t, name, call); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s after Close = %v, want ErrClosed", name, err)
		}
	}
}
