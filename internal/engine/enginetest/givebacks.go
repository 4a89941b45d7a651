package enginetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// testGiveBacks has two takers, on two nodes if possible, that repeatedly give back
// many of their messages and recall requests: each job is handed out until it is
// acknowledged, and none of them only after its lease.
func testGiveBacks(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	other := fx.Engine
	if fx.Shared() {
		other = fx.another(fx.options)
	}
	_, r := random(t)
	s := &giveBacks{
		r: r, recorders: []*recorder{take(t, fx.Engine, normal), take(t, other, normal)},
		naks: map[string]int{}, ended: map[string]bool{},
	}
	const jobs, together = 400, 4
	for range jobs / together {
		fx.jobs(normal, together)
		s.step(t)
	}
	last := time.Now()
	for ended := len(s.ended); ended < jobs; s.step(t) {
		if len(s.ended) > ended {
			ended, last = len(s.ended), time.Now()
		}
		if time.Since(last) > Patience/2 {
			a, b := s.recorders[0], s.recorders[1]
			t.Fatalf("of %d jobs %d have come to their end, and no other for %v; %d and %d are asked for, Depth = %+v",
				jobs, ended, Patience/2, a.open(), b.open(), fx.depth(normal))
		}
		select {
		case <-s.recorders[0].news:
		case <-s.recorders[1].news:
		case <-time.After(5 * time.Millisecond): // a step asks anew
		}
	}
	for _, h := range s.recorders {
		h.taker.Recall()
	}
	eventually(t, "what is taken back is returned", func() bool { return s.recorders[0].open()+s.recorders[1].open() == 0 })
}

// giveBacks is what is known about the jobs.
type giveBacks struct {
	r         *rand.Rand
	recorders []*recorder
	naks      map[string]int  // how often each was given back
	ended     map[string]bool // acknowledged
}

// step answers what has come, makes requests, and recalls some of them.
func (s *giveBacks) step(t *testing.T) {
	t.Helper()
	for _, h := range s.recorders {
		for d, ok := h.first(); ok; d, ok = h.first() {
			s.answer(t, d)
		}
		switch {
		case h.open() == 0:
			h.request(1+s.r.IntN(6), s.r.IntN(4) > 0)
		case s.r.IntN(3) == 0:
			h.taker.Recall()
		}
	}
}

func (s *giveBacks) answer(t *testing.T, d arrival) {
	t.Helper()
	switch {
	case s.ended[d.Subject]:
		t.Errorf("%s was delivered again after its Ack", d.Subject)
		d.Ack()
	case s.naks[d.Subject] < 3 && s.r.IntN(2) == 0:
		s.naks[d.Subject]++
		d.Nak(time.Duration(s.r.IntN(3)) * time.Millisecond)
	default:
		s.ended[d.Subject] = true
		d.Ack()
	}
}

// testBeginTogether makes two nodes use new consumers at the same time: neither has to
// wait long for what the other one creates.
func testBeginTogether(t *testing.T, f Factory) {
	fx, other := f.two(t, engine.Options{})
	const rounds = 15
	for i := range rounds {
		c := engine.Consumer{Queue: fmt.Sprint("mail-", i), Priority: "normal"}
		var group sync.WaitGroup
		for _, e := range []*fixture{fx, other} {
			group.Go(func() {
				began := time.Now()
				taker, err := e.Take(c, func(engine.Delivery) {}, func(int) {})
				if err != nil {
					t.Errorf("Take of %v = %v", c, err)
					return
				}
				defer taker.Stop()
				if _, err := e.Depth(t.Context(), c); err != nil {
					t.Errorf("Depth of %v = %v", c, err)
				}
				if took := time.Since(began); took > f.Late {
					t.Errorf("it took %v to begin with %v, want at most %v", took, c, f.Late)
				}
			})
		}
		group.Wait()
	}
}
