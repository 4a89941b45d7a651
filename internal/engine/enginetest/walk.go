package enginetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bullpen-run/bullpen/internal/engine"
)

// walk walks a stream in parts of part messages, and returns what it saw.
func (fx *fixture) walk(s engine.Stream, back bool, part int) []uint64 {
	fx.t.Helper()
	var seen []uint64
	for at := uint64(0); ; {
		n := 0
		next, err := fx.Walk(fx.ctx(), s, engine.Walk{From: at, Back: back}, func(m engine.Message) bool {
			if m.Stream != s || m.Subject == "" || m.Time.IsZero() || string(m.Data) != m.Subject {
				fx.t.Errorf("Walk shows %+v, want the whole message", m)
			}
			seen = append(seen, m.Seq)
			n++
			return n < part
		})
		if err != nil || n > part {
			fx.t.Fatalf("Walk from %d in parts of %d shows %d, then %d, %v", at, part, n, next, err)
		}
		if next == 0 {
			return seen
		}
		if n == 0 || next == at {
			fx.t.Fatalf("Walk from %d shows %d and goes on at %d, want it to get on", at, n, next)
		}
		at = next
	}
}

// wantWalk checks that walks in both directions see exactly these messages.
func (fx *fixture) wantWalk(s engine.Stream, want []uint64) {
	fx.t.Helper()
	for _, back := range []bool{false, true} {
		for _, part := range []int{1, 7, 100, 1 << 20} {
			if part == 1 && len(want) > 100 {
				continue
			}
			if got := fx.walk(s, back, part); !slices.Equal(got, want) {
				fx.t.Errorf("Walk, back %v, in parts of %d sees %d messages, want %d in order", back, part, len(got), len(want))
			}
		}
		slices.Reverse(want) // twice in total
	}
}

func testWalk(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	fx.wantWalk(engine.Dead, nil)
	var all []uint64
	put := func() {
		subject := fresh(engine.Dead)
		all = append(all, fx.message(engine.Dead, subject, subject))
	}
	put()
	fx.wantWalk(engine.Dead, all)
	for range 60 {
		put()
	}
	remove := func(i int) {
		if err := fx.Delete(fx.ctx(), engine.Dead, all[i]); err != nil {
			t.Fatalf("Delete = %v", err)
		}
		all = slices.Delete(all, i, i+1)
	}
	for _, i := range []int{59, 58, 40, 39, 20, 1, 0} {
		remove(i)
	}
	fx.wantWalk(engine.Dead, all)
	remove(len(all) - 1)
	fx.wantWalk(engine.Dead, all)
}

// testWalkGaps checks that messages far apart are found.
func testWalkGaps(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	const gap = 1500
	var all []uint64
	for range 2 {
		for _, subject := range fx.jobs(normal, 3) {
			m, err := fx.Get(fx.ctx(), engine.Jobs, subject)
			if err != nil {
				t.Fatalf("Get = %v", err)
			}
			all = append(all, m.Seq)
		}
		fx.jobs(engine.Consumer{Queue: "post", Priority: "low"}, gap)
	}
	for _, m := range fx.scan(engine.Jobs, "job.post.>") {
		if err := fx.Delete(fx.ctx(), engine.Jobs, m.Seq); err != nil {
			t.Fatalf("Delete = %v", err)
		}
	}
	fx.wantWalk(engine.Jobs, all)
}

func testWalkEnds(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	subject := fresh(engine.Outcomes)
	seq := fx.message(engine.Outcomes, subject, subject)
	for _, w := range []engine.Walk{{From: seq + 1}, {From: seq + 1000}} {
		next, err := fx.Walk(fx.ctx(), engine.Outcomes, w, func(m engine.Message) bool { t.Errorf("Walk %+v shows %+v", w, m); return true })
		if next != 0 || err != nil {
			t.Errorf("Walk from behind the end = %d, %v, want 0", next, err)
		}
	}
	for _, w := range []engine.Walk{{From: seq + 1000, Back: true}, {Back: true, Largest: 1 << 30}, {From: 1}} {
		n := 0
		if _, err := fx.Walk(fx.ctx(), engine.Outcomes, w, func(engine.Message) bool { n++; return true }); n != 1 || err != nil {
			t.Errorf("Walk %+v shows %d, %v, want one", w, n, err)
		}
	}
}

func testMatching(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	want := func(s engine.Stream, pattern string, n int64) {
		t.Helper()
		if got, err := fx.Matching(fx.ctx(), s, pattern); got != n || err != nil {
			t.Errorf("Matching of %s = %d, %v, want %d", pattern, got, err, n)
		}
	}
	want(engine.Dead, "dead.*.*", 0)
	for i := range 7 {
		fx.message(engine.Dead, fmt.Sprint("dead.", []string{"mail", "post"}[i%2], ".", newID()), "")
	}
	fx.jobs(normal, 5)
	want(engine.Dead, "dead.mail.*", 4)
	want(engine.Dead, "dead.post.*", 3)
	want(engine.Dead, "dead.*.*", 7)
	want(engine.Dead, "dead.none.*", 0)
	want(engine.Jobs, "job.mail.*.*", 5)
	want(engine.Jobs, "at.*", 0)
	all := fx.scan(engine.Jobs, "job.>")
	if len(all) != 5 {
		t.Fatalf("Scan gives %d messages, want 5", len(all))
	}
	if err := fx.Delete(fx.ctx(), engine.Jobs, all[1].Seq); err != nil {
		t.Fatalf("Delete = %v", err)
	}
	want(engine.Jobs, "job.mail.*.*", 4)
}
