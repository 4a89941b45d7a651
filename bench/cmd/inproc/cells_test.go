package main

import (
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// small makes an experiment's shape fit for a test, with arguments that tell the
// tasks of a group apart.
func small(s shape) shape {
	if s.size > 0 {
		s.size = min(s.size, 40)
	}
	if s.arg != nil {
		s.arg = func(i int) uint64 { return uint64(i % 21) }
	}
	return s
}

func TestEveryContenderGivesTheRightResults(t *testing.T) {
	t.Parallel()
	for _, c := range plan(regexp.MustCompile(""), []int{2}) {
		t.Run(c.id(), func(t *testing.T) {
			t.Parallel()
			w, err := c.system.makers[c.experiment.Maker](small(c.experiment.Shape))
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			if w.weigh != nil {
				// The figure means nothing beside other tests; the tasks do.
				if _, n, err := w.weigh(); err != nil || n < 1 {
					t.Fatalf("weighed %d: %v", n, err)
				}
				return
			}
			if w.tasks < 1 {
				t.Fatalf("%d tasks a unit", w.tasks)
			}
			for _, n := range []int{1, 3, 20} {
				if err := w.run(n); err != nil {
					t.Fatalf("%d units: %v", n, err)
				}
			}
		})
	}
}

func TestWrongResultsAreSeen(t *testing.T) {
	t.Parallel()
	s := shape{size: 4, arg: func(i int) uint64 { return uint64(i) }}
	lost := grouped(s, fact, func(args, out []uint64) error {
		for i, a := range args[1:] {
			out[i+1] = fact(a)
		}
		return nil
	})
	if err := lost.run(1); err == nil || !strings.Contains(err.Error(), "4 tasks") {
		t.Errorf("a group that lost a result gave %v", err)
	}
	stale := trips(func(uint64) (uint64, error) { return 1, nil })
	if err := stale.run(2); err == nil || !strings.Contains(err.Error(), "task 1 gave 1") {
		t.Errorf("a stale result gave %v", err)
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	var ids []string
	for _, c := range plan(regexp.MustCompile(""), []int{1, 2}) {
		id := c.id() + strings.Repeat("+", c.procs)
		if slices.Contains(ids, id) {
			t.Errorf("%s stands twice", id)
		}
		ids = append(ids, id)
		if c.experiment.Most && c.procs != 2 {
			t.Errorf("%s is measured under GOMAXPROCS=%d", c.id(), c.procs)
		}
		if found, err := find(c.id()); err != nil || found.id() != c.id() {
			t.Errorf("%s is found as %s: %v", c.id(), found.id(), err)
		}
	}
	for _, s := range systems() {
		for key := range s.makers {
			if !slices.ContainsFunc(experiments(), func(e experiment) bool { return e.Maker == key }) {
				t.Errorf("%s takes part in %s, which is no experiment", s.ID, key)
			}
		}
	}
	if _, err := find("nobody/one"); err == nil {
		t.Error("an unknown cell was found")
	}
}

func TestTakeMeasuresTasks(t *testing.T) {
	t.Parallel()
	s := system{ID: "x", makers: map[string]maker{"one": func(shape) (work, error) {
		return work{tasks: 10, close: func() {}, run: func(n int) error {
			for range n {
				kept = make([]byte, 1000)
				for end := time.Now().Add(20 * time.Microsecond); time.Now().Before(end); {
					runtime.Gosched()
				}
			}
			return nil
		}}, nil
	}}}
	var m measured
	if err := m.take(cell{s, experiment{Maker: "one"}, 1}, options{span: 2 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	// Other tests run at the same time, so that both are lower bounds.
	if m.Metrics["ns"] < 2000 || m.Metrics["allocs"] < 0.1 || m.Metrics["bytes"] < 100 {
		t.Errorf("a tenth of 20 µs and of 1000 bytes is measured as %v", m.Metrics)
	}
}

// kept makes an allocation leave the stack.
var kept []byte
