package enginetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func testJobsBound(t *testing.T, f Factory) {
	const bound, size = 64 << 10, 2 << 10
	fx := f.open(t, engine.Options{Jobs: bound})
	var stored []uint64
	for len(stored) < 2*bound/size {
		seq, err := fx.give(engine.Put{Stream: engine.Jobs, Subject: fresh(engine.Jobs), Data: make([]byte, size)}).wait(t)
		if err != nil {
			if !errors.Is(err, engine.ErrFull) {
				t.Fatalf("Put to a full store = %v, want ErrFull", err)
			}
			break
		}
		stored = append(stored, seq)
	}
	if n := len(stored); n < bound/size/2 || n > bound/size {
		t.Errorf("%d jobs of %d bytes were taken by a store bounded to %d", n, size, bound)
	}
	seq, err := fx.give(engine.Put{Stream: engine.Jobs, Subject: fresh(engine.Jobs), Data: make([]byte, size), At: time.Now().Add(time.Hour)}).wait(t)
	if !errors.Is(err, engine.ErrFull) {
		t.Errorf("Put of a job with a time to a full store = %d, %v, want ErrFull", seq, err)
	}
	fx.message(engine.Outcomes, fresh(engine.Outcomes), "outcomes go on")
	found := fx.scan(engine.Jobs, ">")
	if !slices.EqualFunc(found, stored, func(m engine.Message, seq uint64) bool { return m.Seq == seq }) {
		t.Errorf("%d jobs are there, want the %d that were taken", len(found), len(stored))
	}
	h := takeAndAck(t, fx.Engine, normal)
	for range len(stored) / 2 {
		h.next()
	}
	eventually(t, "there is room again", func() bool {
		_, err := fx.give(engine.Put{Stream: engine.Jobs, Subject: fresh(engine.Jobs), Data: make([]byte, size)}).wait(t)
		return err == nil
	})
}

// wantNewest checks that s holds the newest messages of those put, but not all of them.
func wantNewest(fx *fixture, s engine.Stream, put []uint64) []engine.Message {
	fx.t.Helper()
	found := fx.scan(s, ">")
	if len(found) == 0 || len(found) >= len(put) {
		fx.t.Fatalf("%v holds %d messages of %d, want some and not all", s, len(found), len(put))
	}
	if !slices.EqualFunc(found, put[len(put)-len(found):], func(m engine.Message, seq uint64) bool { return m.Seq == seq }) {
		fx.t.Errorf("%v does not hold the newest of what was put", s)
	}
	return found
}

func testBytesBound(t *testing.T, f Factory) {
	const bound, size = 64 << 10, 2 << 10
	fx := f.open(t, engine.Options{Outcomes: bound, Dead: bound})
	for _, s := range []engine.Stream{engine.Outcomes, engine.Dead} {
		var put []uint64
		for range 2 * bound / size {
			put = append(put, fx.put(engine.Put{Stream: s, Subject: fresh(s), Data: make([]byte, size)}))
		}
		found := wantNewest(fx, s, put)
		if n := len(found); n < bound/size/2 || n > bound/size {
			t.Errorf("%v holds %d messages of %d bytes, bounded to %d bytes", s, n, size, bound)
		}
	}
}

func testCountBound(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{OutcomeCount: 10})
	var put []uint64
	for range 25 {
		put = append(put, fx.message(engine.Outcomes, fresh(engine.Outcomes), ""))
	}
	if found := wantNewest(fx, engine.Outcomes, put); len(found) != 10 {
		t.Errorf("%d outcomes are there, want 10", len(found))
	}
}

// wantGone waits until a subject is empty. That must happen when d has passed since the
// put, not before and not much later. Servers look for old messages only periodically, so
// they get twice the time.
func wantGone(fx *fixture, s engine.Stream, subject string, before time.Time, d time.Duration) {
	fx.t.Helper()
	stored := time.Now()
	eventually(fx.t, subject+" goes", func() bool {
		_, err := fx.Get(fx.ctx(), s, subject)
		return errors.Is(err, engine.ErrNotFound)
	})
	if now := time.Now(); now.Sub(before) < d || now.Sub(stored) > d+2*fx.factory.Late {
		fx.t.Errorf("%s went after %v to %v, want %v", subject, now.Sub(stored), now.Sub(before), d)
	}
}

func testAge(t *testing.T, f Factory) {
	const age = time.Second
	fx := f.open(t, engine.Options{OutcomeAge: age, DeadAge: age})
	before := time.Now()
	subjects := map[engine.Stream]string{}
	for _, s := range []engine.Stream{engine.Outcomes, engine.Dead, engine.Jobs, engine.State} {
		subjects[s] = fresh(s)
		fx.message(s, subjects[s], "data")
	}
	for _, s := range []engine.Stream{engine.Outcomes, engine.Dead} {
		if _, err := fx.Get(fx.ctx(), s, subjects[s]); err != nil && time.Since(before) < age {
			t.Errorf("Get %s = %v within %v", subjects[s], err, time.Since(before))
		}
	}
	wantGone(fx, engine.Outcomes, subjects[engine.Outcomes], before, age)
	eventually(t, "the dead job goes", func() bool {
		_, err := fx.Get(fx.ctx(), engine.Dead, subjects[engine.Dead])
		return errors.Is(err, engine.ErrNotFound)
	})
	fx.wantData(engine.Jobs, subjects[engine.Jobs], "data")
	fx.wantData(engine.State, subjects[engine.State], "data")
}

func testStateTTL(t *testing.T, f Factory) {
	const ttl = time.Second
	fx := f.open(t, engine.Options{})
	stays, renewed, goes := fresh(engine.State), fresh(engine.State), fresh(engine.State)
	fx.message(engine.State, stays, "stays")
	fx.put(engine.Put{Stream: engine.State, Subject: renewed, TTL: ttl})
	fx.message(engine.State, renewed, "stays too") // this one has no TTL
	before := time.Now()
	fx.put(engine.Put{Stream: engine.State, Subject: goes, Data: []byte("goes"), TTL: ttl, New: true})
	if _, err := fx.Get(fx.ctx(), engine.State, goes); err != nil && time.Since(before) < ttl {
		t.Errorf("Get %s = %v, before its TTL has passed", goes, err)
	}
	for subject, expires := range map[string]bool{stays: false, renewed: false, goes: true} {
		m, err := fx.Get(fx.ctx(), engine.State, subject)
		if err != nil && !(expires && errors.Is(err, engine.ErrNotFound)) || err == nil && m.Expires.IsZero() == expires {
			t.Errorf("Get %s = %+v, %v; want that it has a time at which it goes: %v", subject, m, err, expires)
		}
		if off := m.Expires.Sub(before.Add(ttl)); err == nil && expires && (off < -time.Millisecond || off > f.Late) {
			t.Errorf("%s says that it goes %v after it does", subject, off)
		}
	}
	wantGone(fx, engine.State, goes, before, ttl)
	fx.put(engine.Put{Stream: engine.State, Subject: goes, Data: []byte("new"), New: true})
	fx.wantData(engine.State, goes, "new")
	fx.wantData(engine.State, stays, "stays")
	fx.wantData(engine.State, renewed, "stays too")
}
