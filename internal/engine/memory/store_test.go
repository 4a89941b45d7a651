package memory

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func TestRecordStates(t *testing.T) {
	t.Parallel()
	if err := recordStates.Check(kept, scheduled, waiting); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	_, err := Open(engine.Options{Namespace: "Not.This", Lease: -1, Jobs: -1, OutcomeAge: -1})
	if err == nil {
		t.Fatal("Open takes options that are wrong")
	}
	for _, want := range []string{"Namespace", "Lease", "Jobs", "OutcomeAge"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Open = %v, which does not speak of %s", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e, err := new(Store).Open(ctx, engine.Options{}); e != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Open = %v, %v with a context that has ended", e, err)
	}
}

func TestPutRefuses(t *testing.T) {
	t.Parallel()
	e := open(t, new(Store), engine.Options{Outcomes: 100})
	for name, p := range map[string]engine.Put{
		"no stream":             {Stream: 9, Subject: "set.a"},
		"no subject":            {Stream: engine.State},
		"a wildcard":            {Stream: engine.State, Subject: "set.*"},
		"an empty token":        {Stream: engine.State, Subject: "set..a"},
		"a job elsewhere":       {Stream: engine.Jobs, Subject: "set.a"},
		"a job without its id":  {Stream: engine.Jobs, Subject: "job.q.normal"},
		"both conditions":       {Stream: engine.State, Subject: "set.a", New: true, After: 1},
		"a time of state":       {Stream: engine.State, Subject: "set.a", At: time.Now()},
		"a TTL of an outcome":   {Stream: engine.Outcomes, Subject: "out.a", TTL: time.Hour},
		"a negative TTL":        {Stream: engine.State, Subject: "set.a", TTL: -1},
		"more than ever fits":   {Stream: engine.Outcomes, Subject: "out.a", Data: make([]byte, 100)},
		"a blank in the middle": {Stream: engine.State, Subject: "set.a b"},
	} {
		if seq, err := put(t, e, p); err == nil {
			t.Errorf("Put of %s = %d, want it refused", name, seq)
		}
	}
	if _, err := e.Take(engine.Consumer{}, nil, nil); err == nil {
		t.Error("Take takes a consumer without a name")
	}
	if _, err := e.Get(t.Context(), 9, "a"); err == nil || errors.Is(err, engine.ErrNotFound) {
		t.Errorf("Get from no stream = %v", err)
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	s := new(Store)
	e := open(t, s, engine.Options{})
	taker, _, back := taking(t, e)
	cause := errors.New("the disk is broken")
	s.Fail(cause)
	s.Fail(errors.New("again"))
	<-e.Failed()
	_, err := put(t, e, engine.Put{Stream: engine.State, Subject: "set.a"})
	_, opened := s.Open(t.Context(), engine.Options{})
	for name, err := range map[string]error{"Put": err, "Err": e.Err(), "Open": opened} {
		if !errors.Is(err, engine.ErrFailed) || !errors.Is(err, cause) {
			t.Errorf("%s = %v after the store has failed, want ErrFailed and the cause", name, err)
		}
	}
	taker.Request(3, false)
	if n := <-back; n != 3 {
		t.Errorf("%d were returned, want 3", n)
	}
}

func TestLose(t *testing.T) {
	t.Parallel()
	s := new(Store)
	e := open(t, s, engine.Options{Namespace: "a"})
	seq := job(t, e, "lost")
	if s.Lose("b", engine.Jobs, seq) || s.Lose("a", engine.Jobs, seq+1) || s.Lose("a", 9, seq) {
		t.Error("Lose says that it lost what was never there")
	}
	if !s.Lose("a", engine.Jobs, seq) {
		t.Error("Lose says that nothing was there")
	}
	if _, err := e.Get(t.Context(), engine.Jobs, "job.*.*.lost"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("Get = %v, want ErrNotFound", err)
	}
}

// TestStopGivesBack stops a taker in the midst of what it took at a time: the
// rest is there at once for the next, as if it had never been handed out.
func TestStopGivesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, new(Store), engine.Options{})
		for _, id := range []string{"a", "b", "c"} {
			job(t, e, id)
		}
		began, goOn := make(chan engine.Delivery), make(chan struct{})
		taker, err := e.Take(consumerOfTests, func(d engine.Delivery) { began <- d; <-goOn }, func(int) {})
		if err != nil {
			t.Fatal(err)
		}
		taker.Request(3, true)
		first := <-began
		stopped := make(chan struct{})
		go func() { taker.Stop(); close(stopped) }() // the test waits for it
		synctest.Wait()
		close(goOn)
		<-stopped
		first.Ack()
		now := time.Now()
		next, got, _ := taking(t, e)
		next.Request(2, true)
		for _, id := range []string{"b", "c"} {
			if d := wantAt(t, got, id, now); d.Deliveries != 1 || d.Again {
				t.Errorf("%s: Deliveries %d, Again %v, want a first delivery", id, d.Deliveries, d.Again)
			}
		}
	})
}

// TestLateAck acknowledges when the lease has passed and another has the message.
func TestLateAck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, new(Store), engine.Options{Lease: time.Minute})
		start := time.Now()
		taker, got, back := taking(t, e)
		taker.Request(2, true)
		job(t, e, "a")
		first := wantAt(t, got, "a", start)
		second := wantAt(t, got, "a", start.Add(time.Minute))
		first.Extend() // is not theirs to extend,
		first.Nak(0)   // nor to give back,
		taker.Request(1, false)
		if n := <-back; n != 1 {
			t.Errorf("%d were returned, want 1", n)
		}
		second.Nak(time.Minute)
		second.Ack() // nor to end: it has been answered
		taker.Request(1, true)
		third := wantAt(t, got, "a", start.Add(2*time.Minute))
		taker.Request(1, true)
		wantAt(t, got, "a", start.Add(3*time.Minute))
		third.Ack() // but the work is done, whoever has it now
		if d, err := e.Depth(t.Context(), consumerOfTests); err != nil || d.Waiting+d.Taken != 0 {
			t.Errorf("Depth = %+v, %v, want nothing", d, err)
		}
	})
}

// TestLine compares a line with a slice.
func TestLine(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var l line
	var want []*record
	for seq := range uint64(20_000) {
		switch n := len(want); {
		case n == 0 || r.IntN(20) < 11:
			rec := &record{Message: engine.Message{Seq: seq}}
			rec.state.Init(&recordStates, waiting)
			l.push(rec)
			want = append(want, rec)
		case r.IntN(4) == 0:
			if got := l.pop(); got != want[0] {
				t.Fatalf("pop = %d, want %d", got.Seq, want[0].Seq)
			}
			want = want[1:]
		default:
			i := r.IntN(n)
			if !want[i].move(waiting, gone) {
				t.Fatal("a record that waits may not go")
			}
			want = slices.Delete(want, i, i+1)
			l.lost()
		}
		if l.live() != len(want) {
			t.Fatalf("%d are live, want %d", l.live(), len(want))
		}
		if len(want) == 0 {
			continue
		}
		i := r.IntN(len(want))
		if l.first() != want[0] || l.from(want[i].Seq)[0] != want[i] {
			t.Fatalf("first or from(%d) give another record", want[i].Seq)
		}
		if len(l.records) > 2*len(want)+130 {
			t.Fatalf("%d records are kept for %d that are there", len(l.records), len(want))
		}
	}
}

// TestAgenda compares an agenda with a look at all.
func TestAgenda(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	var a agenda
	all := make([]*record, 200)
	for i := range all {
		all[i] = &record{}
	}
	start := time.Now()
	for range 50_000 {
		rec := all[r.IntN(len(all))]
		if r.IntN(2) == 0 {
			a.set(rec, start.Add(time.Duration(r.IntN(1000))))
		} else {
			a.drop(rec)
		}
		var first *record
		in := 0
		for _, rec := range all {
			if rec.index == 0 {
				continue
			}
			in++
			if a[rec.index-1] != rec {
				t.Fatal("a record stands in another slot than it says")
			}
			if first == nil || rec.due.Before(first.due) {
				first = rec
			}
		}
		if in != len(a) || (first == nil) != (a.first() == nil) || first != nil && !a.first().due.Equal(first.due) {
			t.Fatalf("the agenda has %d records, want %d, or another first one", len(a), in)
		}
	}
}
