package enginetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// ears record what they hear.
type ears struct {
	mu    sync.Mutex
	heard []string // guarded by mu
}

func (e *ears) hear(subject string, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, subject+" "+string(data))
}

func (e *ears) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

// two opens two engines on one store, or skips the test.
func (f Factory) two(t *testing.T, o engine.Options) (*fixture, *fixture) {
	t.Helper()
	fx := f.open(t, o)
	if !fx.Shared() {
		t.Skip("the engine says that no other node can be on its store")
	}
	other := *fx
	other.Engine = fx.another(fx.options)
	return fx, &other
}

func testSendAndListen(t *testing.T, f Factory) {
	fx, other := f.two(t, engine.Options{})
	var mine, theirs, quiet ears
	stops := map[*ears]func(){}
	for who, e := range map[*ears]engine.Engine{&mine: fx, &theirs: other, &quiet: other} {
		subject := "hint.jobs"
		if who == &quiet {
			subject = "hint.other"
		}
		stop, err := e.Listen(subject, who.hear)
		if err != nil {
			t.Fatalf("Listen = %v", err)
		}
		stops[who] = stop
		t.Cleanup(stop)
	}
	// A message may be lost, above all before all nodes know the listener.
	eventually(t, "both nodes hear what one sends", func() bool {
		if err := fx.Send("hint.jobs", []byte("knock")); err != nil {
			t.Fatalf("Send = %v", err)
		}
		return len(mine.all()) > 0 && len(theirs.all()) > 0
	})
	for i := range 5 {
		if err := fx.Send("hint.jobs", fmt.Append(nil, i)); err != nil {
			t.Fatalf("Send = %v", err)
		}
	}
	eventually(t, "the last is heard", func() bool { return slices.Contains(theirs.all(), "hint.jobs 4") })
	got := theirs.all()
	if i := slices.Index(got, "hint.jobs 0"); i < 0 || len(got) != i+5 || !slices.IsSorted(got[i:]) {
		t.Errorf("heard %v, want 0 to 4 in order", got)
	}
	stops[&theirs]()
	stops[&theirs]() // a second time does no harm
	before := len(theirs.all())
	if err := fx.Send("hint.jobs", []byte("after")); err != nil {
		t.Fatalf("Send = %v", err)
	}
	eventually(t, "the other hears it", func() bool { return slices.Contains(mine.all(), "hint.jobs after") })
	if n := len(theirs.all()); n > before {
		t.Errorf("a listener that was stopped heard %v", theirs.all()[before:])
	}
	if n := len(quiet.all()); n > 0 {
		t.Errorf("a listener to another subject heard %v", quiet.all())
	}
}

func testShared(t *testing.T, f Factory) {
	fx, other := f.two(t, engine.Options{})
	const jobs = 200
	a, b := takeAndAck(t, fx.Engine, normal), takeAndAck(t, other.Engine, normal)
	fx.share(a, b, jobs, func() {
		fx.jobs(normal, jobs/2)
		other.jobs(normal, jobs/2)
	})
	pause(fx, true)
	eventually(t, "the other node learns that one has paused the consumer", func() bool { return other.depth(normal).Paused })
	fx.jobs(normal, 1)
	for _, h := range []*recorder{a, b} {
		h.stop()
	}
	other.take(normal).nothing("while another node has paused the consumer")
	pause(other, false)
	subject := fresh(engine.State)
	for range 20 {
		var answers [2]*answer
		var group sync.WaitGroup
		for i, e := range []*fixture{fx, other} {
			// Two puts of the same bytes cannot be distinguished if one was sent twice.
			put := engine.Put{Stream: engine.State, Subject: subject, New: true, Data: []byte{'a' + byte(i)}}
			group.Go(func() { answers[i] = e.give(put) })
		}
		group.Wait()
		first, err1 := answers[0].wait(t)
		second, err2 := answers[1].wait(t)
		if (err1 == nil) == (err2 == nil) {
			t.Fatalf("two nodes put the same with New: %v and %v, want one of them to win", err1, err2)
		}
		if err := other.Delete(other.ctx(), engine.State, max(first, second)); err != nil {
			t.Fatal(err)
		}
	}
}
