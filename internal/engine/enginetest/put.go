package enginetest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func testPutDoneOnce(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	const callers, each = 8, 50
	var all [callers][]*answer
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			for range each {
				id := newID()
				for _, p := range []engine.Put{
					{Stream: engine.Jobs, Subject: engine.JobSubject(normal, id), Durable: true},
					{Stream: engine.Outcomes, Subject: "out." + id, Durable: i%2 == 0},
				} {
					all[i] = append(all[i], fx.give(p))
				}
			}
		})
	}
	group.Wait()
	for n, name := range []engine.Stream{engine.Jobs, engine.Outcomes} {
		seen := map[uint64]bool{}
		for _, answers := range all {
			for i := n; i < len(answers); i += 2 {
				seq, err := answers[i].wait(t)
				if err != nil || seq == 0 || seen[seq] {
					t.Fatalf("Put to %v = %d, %v; want a sequence number that none has had (had: %v)", name, seq, err, seen[seq])
				}
				seen[seq] = true
			}
		}
	}
	if got := len(fx.scan(engine.Jobs, "job.>")); got != callers*each {
		t.Errorf("%d jobs are there, want %d", got, callers*each)
	}
}

// testPutKept puts so many messages on all streams that a loss of one in ten is noticed.
func testPutKept(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	for _, s := range engine.Streams() {
		var subjects []string
		var answers []*answer
		for i := range 60 {
			subjects = append(subjects, fresh(s))
			answers = append(answers, fx.give(engine.Put{Stream: s, Subject: subjects[i], Data: []byte(subjects[i]), Durable: i%2 == 0}))
		}
		for i, a := range answers {
			if _, err := a.wait(t); err != nil {
				t.Fatalf("Put %s = %v, want it stored", subjects[i], err)
			}
		}
		for _, subject := range subjects {
			if m, err := fx.Get(fx.ctx(), s, subject); err != nil || string(m.Data) != subject {
				t.Errorf("Get %s of %v = %q, %v, want what was put", subject, s, m.Data, err)
			}
		}
	}
}

func testPutKeepsData(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, want := range [][]byte{{}, []byte("x"), every, bytes.Repeat([]byte("\r\n+ACK\x00"), 40), bytes.Repeat([]byte("long "), 50_000)} {
		id := newID()
		data := slices.Clone(want)
		fx.put(engine.Put{Stream: engine.Outcomes, Subject: "out." + id, Data: data, Durable: true})
		clear(data) // data is the caller's again
		for range 2 {
			m, err := fx.Get(fx.ctx(), engine.Outcomes, "out."+id)
			if err != nil || !bytes.Equal(m.Data, want) {
				t.Fatalf("Get of %d bytes = %d bytes, %v; want the same", len(want), len(m.Data), err)
			}
			clear(m.Data) // the receiver owns what it received
		}
		fx.put(engine.Put{Stream: engine.Jobs, Subject: engine.JobSubject(normal, id), Data: want})
		h := fx.take(normal)
		d := h.next()
		if !bytes.Equal(d.Data, want) {
			t.Fatalf("%d bytes were delivered of %d, or others", len(d.Data), len(want))
		}
		clear(d.Data)
		d.Nak(0)
		if d = h.next(); !bytes.Equal(d.Data, want) {
			t.Fatalf("the second time %d bytes were delivered of %d, or others", len(d.Data), len(want))
		}
		d.Ack()
		h.stop()
	}
}

// fresh returns an empty subject of s.
func fresh(s engine.Stream) string {
	switch s {
	case engine.Jobs:
		return engine.JobSubject(normal, newID())
	case engine.Outcomes:
		return "out." + newID()
	case engine.State:
		return "key.mail." + newID()
	case engine.Dead:
	}
	return "dead.mail." + newID()
}

func wantConflict(t *testing.T, what string, a *answer) {
	t.Helper()
	if seq, err := a.wait(t); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("%s = %d, %v, want ErrConflict", what, seq, err)
	}
}

// wantData checks the data on a subject.
func (fx *fixture) wantData(s engine.Stream, subject, want string) {
	fx.t.Helper()
	m, err := fx.Get(fx.ctx(), s, subject)
	if err != nil || string(m.Data) != want {
		fx.t.Errorf("Get %s = %q, %v, want %q", subject, m.Data, err, want)
	}
}

func testPutNew(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	for _, s := range engine.Streams() {
		subject := fresh(s)
		first := fx.put(engine.Put{Stream: s, Subject: subject, Data: []byte("first"), New: true})
		wantConflict(t, "the second Put with New to "+s.String(), fx.give(engine.Put{Stream: s, Subject: subject, Data: []byte("second"), New: true}))
		fx.wantData(s, subject, "first")
		if err := fx.Delete(fx.ctx(), s, first); err != nil {
			t.Fatalf("Delete = %v", err)
		}
		fx.put(engine.Put{Stream: s, Subject: subject, Data: []byte("third"), New: true})
		fx.wantData(s, subject, "third")
		fx.put(engine.Put{Stream: s, Subject: fresh(s), New: true}) // other subjects don't count
	}
}

func testPutNewRacing(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	for round := range 100 {
		s := engine.Streams()[round%4]
		race(fx, s, engine.Put{Stream: s, Subject: fresh(s), New: true})
	}
}

// race puts the same message twice concurrently; exactly one put must win.
func race(fx *fixture, s engine.Stream, p engine.Put) {
	fx.t.Helper()
	var answers [2]*answer
	names := [2]string{"one", "the other"}
	var group sync.WaitGroup
	begin := make(chan struct{})
	for i := range answers {
		group.Go(func() {
			mine := p
			mine.Data = []byte(names[i])
			<-begin
			answers[i] = fx.give(mine)
		})
	}
	close(begin)
	group.Wait()
	winner := ""
	for i, a := range answers {
		switch _, err := a.wait(fx.t); {
		case err == nil && winner == "":
			winner = names[i]
		case err == nil:
			fx.t.Fatalf("both of two racing Puts to %s won", p.Subject)
		case !errors.Is(err, engine.ErrConflict):
			fx.t.Fatalf("a Put to %s in a race = %v, want nil or ErrConflict", p.Subject, err)
		}
	}
	if winner == "" {
		fx.t.Fatalf("neither of two racing Puts to %s won", p.Subject)
	}
	fx.wantData(s, p.Subject, winner)
}

func testPutAfter(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	for _, s := range []engine.Stream{engine.Outcomes, engine.State, engine.Dead} {
		subject := fresh(s)
		wantConflict(t, "Put with After where nothing is", fx.give(engine.Put{Stream: s, Subject: subject, After: 1}))
		first := fx.put(engine.Put{Stream: s, Subject: subject, Data: []byte("first")})
		fx.put(engine.Put{Stream: s, Subject: fresh(s)}) // other subjects don't count
		second := fx.put(engine.Put{Stream: s, Subject: subject, Data: []byte("second"), After: first})
		wantConflict(t, "Put after one that was replaced", fx.give(engine.Put{Stream: s, Subject: subject, Data: []byte("third"), After: first}))
		fx.wantData(s, subject, "second")
		if err := fx.Delete(fx.ctx(), s, second); err != nil {
			t.Fatalf("Delete = %v", err)
		}
		wantConflict(t, "Put after one that was deleted", fx.give(engine.Put{Stream: s, Subject: subject, Data: []byte("third"), After: second}))
		if m, err := fx.Get(fx.ctx(), s, subject); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("Get of a deleted message = %q, %v, want ErrNotFound", m.Data, err)
		}
	}
}

func testPutAfterRacing(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	subject := fresh(engine.State)
	fx.message(engine.State, subject, "begin")
	for range 50 {
		m, err := fx.Get(fx.ctx(), engine.State, subject)
		if err != nil {
			t.Fatal(err)
		}
		race(fx, engine.State, engine.Put{Stream: engine.State, Subject: subject, After: m.Seq})
	}
}

func testSequencesRise(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	for _, s := range engine.Streams() {
		var last uint64
		for i := range 5 {
			seq := fx.message(s, fresh(s), "")
			if seq <= last {
				t.Errorf("%v: sequence number %d comes after %d", s, seq, last)
			}
			last = seq
			if i < 2 {
				continue
			}
			if err := fx.Delete(fx.ctx(), s, seq); err != nil { // and its number is not used again
				t.Fatalf("Delete = %v", err)
			}
		}
	}
}

func testOneMessageASubject(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	for _, s := range []engine.Stream{engine.Outcomes, engine.State, engine.Dead} {
		subject := fresh(s)
		fx.message(s, subject, "first")
		other := fresh(s)
		fx.message(s, other, "other")
		second := fx.message(s, subject, "second")
		kind, _, _ := strings.Cut(subject, ".")
		found := fx.scan(s, kind+".>")
		if len(found) != 2 || found[0].Subject != other || found[1].Seq != second || string(found[1].Data) != "second" {
			t.Errorf("%v holds %v, want the other and the second message", s, found)
		}
	}
}
