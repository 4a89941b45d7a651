package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

var consumerOfTests = engine.Consumer{Queue: "q", Priority: "normal"}

// open opens an engine, which is closed at the end.
func open(t *testing.T, s *Store, o engine.Options) engine.Engine {
	t.Helper()
	e, err := s.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return e
}

// put puts p and returns the answer, which must come before Put returns.
func put(t *testing.T, e engine.Engine, p engine.Put) (seq uint64, err error) {
	t.Helper()
	calls := 0
	e.Put(p, func(s uint64, e error) { calls, seq, err = calls+1, s, e })
	if calls != 1 {
		t.Fatalf("done was called %d times before Put returned, want once", calls)
	}
	return seq, err
}

func job(t *testing.T, e engine.Engine, id string) uint64 {
	t.Helper()
	seq, err := put(t, e, engine.Put{Subject: engine.JobSubject(consumerOfTests, id), Data: []byte(id)})
	if err != nil {
		t.Fatalf("Put = %v", err)
	}
	return seq
}

// taking takes messages into a channel.
func taking(t *testing.T, e engine.Engine) (engine.Taker, <-chan engine.Delivery, <-chan int) {
	t.Helper()
	got, back := make(chan engine.Delivery, 100), make(chan int, 100)
	taker, err := e.Take(consumerOfTests, func(d engine.Delivery) { got <- d }, func(n int) { back <- n })
	if err != nil {
		t.Fatalf("Take = %v", err)
	}
	t.Cleanup(taker.Stop)
	return taker, got, back
}

// wantAt checks when a message comes, to the nanosecond.
func wantAt(t *testing.T, got <-chan engine.Delivery, id string, at time.Time) engine.Delivery {
	t.Helper()
	d := <-got
	if now := time.Now(); engine.LastToken(d.Subject) != id || !now.Equal(at) {
		t.Fatalf("%s came at %v, want %s at %v", d.Subject, now, id, at)
	}
	return d
}

func TestExactTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := open(t, new(Store), engine.Options{Lease: 30 * time.Second})
		start := time.Now()
		taker, got, _ := taking(t, e)
		taker.Request(100, true)
		job(t, e, "a")
		d := wantAt(t, got, "a", start)
		<-time.After(20 * time.Second) // by the clock of the bubble
		d.Extend()
		d = wantAt(t, got, "a", start.Add(50*time.Second))
		d.Nak(7 * time.Second)
		d = wantAt(t, got, "a", start.Add(57*time.Second))
		d.Nak(0)
		d = wantAt(t, got, "a", start.Add(57*time.Second))
		if d.Deliveries != 4 || !d.Again {
			t.Errorf("Deliveries %d, Again %v, want 4 and true", d.Deliveries, d.Again)
		}
		at := start.Add(time.Hour)
		if _, err := put(t, e, engine.Put{Subject: engine.JobSubject(consumerOfTests, "b"), At: at}); err != nil {
			t.Fatal(err)
		}
		d.Ack()
		wantAt(t, got, "b", at).Ack()
	})
}

func TestExactAges(t *testing.T) {
	t.Parallel()
	o := engine.Options{OutcomeAge: time.Hour, DeadAge: 2 * time.Hour}
	synctest.Test(t, func(t *testing.T) {
		e := open(t, new(Store), o)
		for _, p := range []engine.Put{
			{Stream: engine.Outcomes, Subject: "out.a"},
			{Stream: engine.Dead, Subject: "dead.q.a"},
			{Stream: engine.State, Subject: "key.q.a", TTL: 3 * time.Hour},
			{Stream: engine.State, Subject: "key.q.b"},
		} {
			if _, err := put(t, e, p); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(time.Hour - 1)
		for hours := 1; hours <= 4; hours++ {
			for _, after := range []int{0, 1} {
				left := 0
				for _, s := range engine.Streams() {
					ms, err := e.Scan(t.Context(), s, ">", 0, 10)
					if err != nil {
						t.Fatal(err)
					}
					left += len(ms)
				}
				if want := max(1, 5-hours-after); left != want {
					t.Errorf("%d messages are left %d ns after %d hours less 1 ns, want %d", left, after, hours, want)
				}
				<-time.After(1)
				synctest.Wait()
			}
			<-time.After(time.Hour - 2)
		}
	})
}

// TestRestart closes all engines while a job is taken and one is scheduled.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := new(Store)
	o := engine.Options{Lease: time.Minute}
	synctest.Test(t, func(t *testing.T) {
		e := open(t, s, o)
		start := time.Now()
		taker, got, _ := taking(t, e)
		taker.Request(1, true)
		job(t, e, "a")
		taken := wantAt(t, got, "a", start)
		if _, err := put(t, e, engine.Put{Subject: engine.JobSubject(consumerOfTests, "b"), At: start.Add(2 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second) // nobody is there
		taken.Ack()                    // its engine is closed
		e = open(t, s, o)
		taker, got, _ = taking(t, e)
		taker.Request(2, true)
		if d := wantAt(t, got, "a", start.Add(10*time.Second)); !d.Old || !d.Again || d.Deliveries != 2 {
			t.Errorf("Old %v, Again %v, Deliveries %d, want it old and again", d.Old, d.Again, d.Deliveries)
		}
		if d := wantAt(t, got, "b", start.Add(10*time.Second)); d.Old || d.Again {
			t.Errorf("Old %v, Again %v, want neither: it appeared after the opening", d.Old, d.Again)
		}
	})
}

func TestInject(t *testing.T) {
	t.Parallel()
	s := new(Store)
	broken := errors.New("broken")
	faults := map[string]Fault{} // by operation; the bubble has one goroutine that uses it
	s.Inject(func(o Operation) Fault { return faults[o.Name] })
	synctest.Test(t, func(t *testing.T) {
		e := open(t, s, engine.Options{})
		ctx := t.Context()
		faults["put"] = Fault{Err: broken}
		if _, err := put(t, e, engine.Put{Stream: engine.State, Subject: "set.a"}); !errors.Is(err, broken) {
			t.Errorf("Put = %v, want the fault", err)
		}
		delete(faults, "put")
		if _, err := e.Get(ctx, engine.State, "set.a"); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("Get = %v, want nothing to be stored", err)
		}
		faults["put"] = Fault{Err: engine.ErrUnknown, Stored: true}
		if _, err := put(t, e, engine.Put{Stream: engine.State, Subject: "set.a"}); !errors.Is(err, engine.ErrUnknown) {
			t.Errorf("Put = %v, want the fault", err)
		}
		if _, err := e.Get(ctx, engine.State, "set.a"); err != nil {
			t.Errorf("Get = %v, want it stored although the answer was lost", err)
		}
		for name, call := range map[string]func() error{
			"get":    func() error { _, err := e.Get(ctx, engine.State, "set.a"); return err },
			"scan":   func() error { _, err := e.Scan(ctx, engine.State, ">", 0, 1); return err },
			"delete": func() error { return e.Delete(ctx, engine.State, 1) },
			"depth":  func() error { _, err := e.Depth(ctx, consumerOfTests); return err },
			"pause":  func() error { return e.Pause(ctx, consumerOfTests, false) },
			"info":   func() error { _, err := e.Info(ctx); return err },
			"take":   func() error { _, err := e.Take(consumerOfTests, nil, nil); return err },
			"send":   func() error { return e.Send("hint", nil) },
		} {
			start := time.Now()
			faults[name] = Fault{Err: broken, Delay: time.Second}
			if err := call(); !errors.Is(err, broken) {
				t.Errorf("%s = %v, want the fault", name, err)
			}
			if took := time.Since(start); name != "send" && took != time.Second {
				t.Errorf("%s took %v, want 1 s", name, took)
			}
		}
		delete(faults, "get")
		faults["get"] = Fault{Delay: time.Hour}
		short, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, err := e.Get(short, engine.State, "set.a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Get = %v, want its deadline to be over", err)
		}
	})
}

// TestLateAnswers holds answers back, one beyond the closing of the engine.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	s := new(Store)
	synctest.Test(t, func(t *testing.T) {
		e := open(t, s, engine.Options{})
		start := time.Now()
		var came []string
		note := func(name string) func(uint64, error) {
			return func(_ uint64, err error) { came = append(came, fmt.Sprint(name, " ", time.Since(start), " ", err)) }
		}
		for i, delay := range []time.Duration{3 * time.Second, time.Hour} {
			s.Inject(func(Operation) Fault { return Fault{Delay: delay} })
			e.Put(engine.Put{Stream: engine.State, Subject: fmt.Sprint("set.", i)}, note(fmt.Sprint(i)))
		}
		s.Inject(nil)
		<-time.After(5 * time.Second)
		synctest.Wait() // came is the other goroutine's until then
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []string{"0 3s <nil>", "1 5s <nil>"}; !slices.Equal(came, want) {
			t.Errorf("answers came: %q, want %q", came, want)
		}
	})
}

// TestLostAnswers loses an acknowledgement: the message comes again.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	s := new(Store)
	synctest.Test(t, func(t *testing.T) {
		e := open(t, s, engine.Options{Lease: time.Minute})
		start := time.Now()
		taker, got, _ := taking(t, e)
		taker.Request(10, true)
		job(t, e, "a")
		for n, name := range []string{"ack", "nak", "extend"} {
			d := wantAt(t, got, "a", start.Add(time.Duration(n)*time.Minute))
			s.Inject(func(o Operation) Fault {
				if o.Name == name && o.Seq == d.Seq {
					return Fault{Err: engine.ErrUnknown}
				}
				return Fault{}
			})
			<-time.After(time.Second)
			switch name {
			case "ack":
				d.Ack()
			case "nak":
				d.Nak(0)
			default:
				d.Extend()
			}
		}
		s.Inject(nil)
		wantAt(t, got, "a", start.Add(3*time.Minute)).Ack()
	})
}
