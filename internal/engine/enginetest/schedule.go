package enginetest

import (
	"errors"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// schedule puts a job with a time.
func (fx *fixture) schedule(c engine.Consumer, at time.Time) (id string, seq uint64) {
	fx.t.Helper()
	id = newID()
	seq = fx.put(engine.Put{
		Stream: engine.Jobs, Subject: engine.JobSubject(c, id), Data: []byte("data of " + id),
		At: at, New: true, Durable: true,
	})
	return id, seq
}

// wantOnTime checks a delivery of a job with a time.
func wantOnTime(t *testing.T, f Factory, d arrival, id string, at time.Time) {
	t.Helper()
	if d.Subject != engine.JobSubject(normal, id) || string(d.Data) != "data of "+id {
		t.Errorf("%s with %q was delivered, want the job %s", d.Subject, d.Data, id)
	}
	if late := d.came.Sub(at); late < 0 || late > f.Late {
		t.Errorf("the job came %v after its time, want 0 to %v", late, f.Late)
	}
	if d.Deliveries != 1 || d.Again {
		t.Errorf("Deliveries %d, Again %v, want a first delivery", d.Deliveries, d.Again)
	}
}

func testSchedule(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	h := fx.take(normal)
	h.request(2, true)
	at := time.Now().Add(700 * time.Millisecond)
	id, seq := fx.schedule(normal, at)
	m, err := fx.Get(fx.ctx(), engine.Jobs, "at."+id)
	if err != nil || m.Seq != seq || m.Target != engine.JobSubject(normal, id) || string(m.Data) != "data of "+id {
		t.Errorf("Get at.%s = %+v, %v, want the message %d with its target", id, m, err, seq)
	}
	if off := m.At.Sub(at); off < 0 || off > time.Second {
		t.Errorf("its time is %v, want %v", m.At, at)
	}
	if found := fx.scan(engine.Jobs, "at.>"); len(found) != 1 || found[0].Target != m.Target || !found[0].At.Equal(m.At) {
		t.Errorf("Scan gives %+v, want the same", found)
	}
	if found := fx.scan(engine.Jobs, "job.>"); len(found) != 0 {
		t.Errorf("%s is there before its time", found[0].Subject)
	}
	early, _ := fx.schedule(normal, at.Add(-300*time.Millisecond))
	wantOnTime(t, f, h.next(), early, at.Add(-300*time.Millisecond))
	d := h.next()
	wantOnTime(t, f, d, id, at)
	if d.Seq <= seq {
		t.Errorf("the job has sequence number %d, its schedule had %d", d.Seq, seq)
	}
	if got, err := fx.Get(fx.ctx(), engine.Jobs, "at."+id); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("Get at.%s = %+v, %v after its time, want ErrNotFound", id, got, err)
	}
	d.Nak(0) // now it is an ordinary job
	h.next().Ack()
	past, _ := fx.schedule(normal, time.Now().Add(-time.Minute))
	if d := h.next(); d.Subject != engine.JobSubject(normal, past) {
		t.Errorf("%s was delivered, want the one whose time is past", d.Subject)
	}
}

func testScheduleConditions(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	hour := time.Now().Add(time.Hour)
	id, seq := fx.schedule(normal, hour)
	p := engine.Put{Stream: engine.Jobs, Subject: engine.JobSubject(normal, id), At: hour.Add(time.Hour), Data: []byte("second")}
	again := p
	again.New = true
	wantConflict(t, "a second schedule with New", fx.give(again))
	stale := p
	stale.After = seq + 7
	wantConflict(t, "a schedule after one that is not there", fx.give(stale))
	fx.wantData(engine.Jobs, "at."+id, "data of "+id)
	p.After = seq
	fx.put(p)
	fx.wantData(engine.Jobs, "at."+id, "second")
	if found := fx.scan(engine.Jobs, "at.>"); len(found) != 1 {
		t.Errorf("%d schedules are there, want the second to have replaced the first", len(found))
	}
	fx.put(engine.Put{Stream: engine.Jobs, Subject: p.Subject, New: true}) // another subject
}

func testScheduleDeleted(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	at := time.Now().Add(300 * time.Millisecond)
	_, seq := fx.schedule(normal, at)
	later := at.Add(300 * time.Millisecond)
	id, _ := fx.schedule(normal, later)
	if err := fx.Delete(fx.ctx(), engine.Jobs, seq); err != nil {
		t.Fatalf("Delete = %v", err)
	}
	wantOnTime(t, f, fx.take(normal).next(), id, later)
}

func testScheduleReopen(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	at := time.Now().Add(300 * time.Millisecond)
	missed, _ := fx.schedule(normal, at)
	fx.shut(fx.Engine)
	until(t, at.Add(100*time.Millisecond)) // its time passes meanwhile
	fx.Engine = fx.another(fx.options)
	opened := time.Now()
	h := fx.take(normal)
	first := h.next()
	wantOnTime(t, f, first, missed, opened)
	first.Ack()
	eventually(t, "it is gone", func() bool { return len(fx.scan(engine.Jobs, ">")) == 0 })
	at = time.Now().Add(f.Late)
	id, _ := fx.schedule(normal, at)
	h.stop()
	fx.reopen()
	if left := time.Until(at); left < 0 {
		at = at.Add(-left) // opening took longer than left
	}
	d := fx.take(normal).next()
	wantOnTime(t, f, d, id, at)
}
