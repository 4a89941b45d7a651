package enginetest

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func testTakeInOrder(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	before := fx.jobs(normal, 60)
	h := fx.take(normal)
	h.request(100, true)
	subjects := append(before, fx.jobs(normal, 140)...)
	h.request(100, true)
	var last uint64
	for i, want := range subjects {
		d := h.next()
		switch {
		case d.Subject != want || string(d.Data) != want:
			t.Fatalf("delivery %d is %s, want %s", i, d.Subject, want)
		case d.Seq <= last || d.Stream != engine.Jobs || d.Time.IsZero():
			t.Fatalf("delivery %d is %+v after sequence number %d", i, d.Message, last)
		case d.Deliveries != 1 || d.Old || d.Again:
			t.Fatalf("delivery %d: Deliveries %d, Old %v, Again %v; want a first one of a new message", i, d.Deliveries, d.Old, d.Again)
		}
		last = d.Seq
		d.Ack()
	}
}

func testConsumersApart(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	cs := []engine.Consumer{{Queue: "mail", Priority: "high"}, {Queue: "mail", Priority: "low"}, {Queue: "post", Priority: "low"}, {Queue: "mail-2", Priority: "low"}}
	hs := make([]*recorder, len(cs))
	wants := make([][]string, len(cs))
	for i, c := range cs {
		wants[i] = fx.jobs(c, i+1)
		hs[i] = fx.take(c)
	}
	for i := range cs {
		for _, want := range wants[i] {
			if d := hs[i].next(); d.Subject != want {
				t.Errorf("the taker of %v got %s, want %s", cs[i], d.Subject, want)
			} else {
				d.Ack()
			}
		}
		hs[i].nothing("when its own jobs are done")
	}
}

func testRequestWithoutWait(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	h := fx.take(normal)
	h.request(7, false)
	eventually(t, "7 that were asked for without wait are returned", func() bool {
		_, returned := h.count()
		return returned == 7
	})
	fx.jobs(normal, 4)
	eventually(t, "4 jobs wait", func() bool { return fx.depth(normal).Waiting == 4 })
	h.request(3, false)
	eventually(t, "3 of 4 come", func() bool { delivered, _ := h.count(); return delivered == 3 })
	h.request(5, false)
	eventually(t, "1 of 5 comes, 4 are returned", func() bool {
		delivered, returned := h.count()
		return delivered == 4 && returned == 11
	})
}

func testRequestWithWait(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	h := fx.take(normal)
	h.request(3, true)
	for _, want := range fx.jobs(normal, 2) {
		if d := h.next(); d.Subject != want {
			t.Errorf("%s was delivered, want %s", d.Subject, want)
		}
	}
	for _, want := range fx.jobs(normal, 1) {
		if d := h.next(); d.Subject != want {
			t.Errorf("%s was delivered, want %s", d.Subject, want)
		}
	}
	if h.open() == 0 {
		fx.jobs(normal, 1) // no request is open, so it is for a request without wait
		eventually(t, "1 job waits", func() bool { return fx.depth(normal).Waiting == 1 })
		h.request(2, false)
		eventually(t, "what was not asked for has not come", func() bool { return h.open() == 0 })
		if delivered, _ := h.count(); delivered != 4 {
			t.Errorf("%d were delivered, want 4", delivered)
		}
	}
}

func testRequestsAddUp(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	seed, r := random(t)
	h := takeAndAck(t, fx.Engine, normal)
	h.request(3, false)
	eventually(t, "3 that were asked for while nothing is there are returned", func() bool { return h.open() == 0 })
	jobs := 0
	for range 60 {
		switch n := 1 + r.IntN(9); r.IntN(3) {
		case 0:
			fx.jobs(normal, n)
			jobs += n
		case 1:
			h.request(n, true)
		default:
			h.request(n, false)
		}
	}
	// The open requests wait: they are served when enough jobs exist.
	for h.open() > 0 {
		before := h.open()
		fx.jobs(normal, 1)
		jobs++
		eventually(t, "an open request gets something, or is returned", func() bool { return h.open() < before })
	}
	for delivered, _ := h.count(); delivered < jobs; delivered, _ = h.count() {
		h.next()
	}
	if delivered, _ := h.count(); delivered != jobs {
		t.Errorf("%d jobs were delivered %d times, seed %d", jobs, delivered, seed)
	}
}

func testAckRemoves(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{Lease: f.Lease})
	subjects := fx.jobs(normal, 3)
	h := fx.take(normal)
	for range subjects {
		h.next().Ack()
	}
	for _, subject := range subjects {
		eventually(t, "Ack removes "+subject, func() bool {
			_, err := fx.Get(fx.ctx(), engine.Jobs, subject)
			return errors.Is(err, engine.ErrNotFound)
		})
	}
	if left := fx.scan(engine.Jobs, ">"); len(left) != 0 {
		t.Errorf("%d jobs are left", len(left))
	}
	if d, ok := h.by(time.Now().Add(f.Lease + f.Late)); ok {
		t.Errorf("%s was delivered again after its Ack", d.Subject)
	}
}

func testAnsweredOnce(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	fx.jobs(normal, 1)
	h := fx.take(normal)
	first := h.next()
	first.Nak(0)
	second := h.next()
	first.Ack() // it was answered before, so this must not end the message
	first.Nak(0)
	first.Extend()
	h.nothing("while the second taker has it")
	second.Nak(0)
	third := h.next()
	if third.Deliveries != 3 {
		t.Errorf("Deliveries is %d, want 3", third.Deliveries)
	}
	third.Ack()
	third.Nak(0)
	eventually(t, "the job is gone", func() bool { return len(fx.scan(engine.Jobs, ">")) == 0 })
	h.nothing("after the Ack")
}

func testTwoTakers(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	const jobs = 300
	a, b := takeAndAck(t, fx.Engine, normal), takeAndAck(t, fx.Engine, normal)
	fx.share(a, b, jobs, func() { fx.jobs(normal, jobs) })
}

// share makes two takers take jobs together, each job exactly once.
func (fx *fixture) share(a, b *recorder, jobs int, put func()) {
	fx.t.Helper()
	a.request(jobs, true)
	b.request(jobs, true)
	put()
	eventually(fx.t, "two takers have taken all", func() bool {
		for _, h := range []*recorder{a, b} {
			if h.open() == 0 {
				h.request(jobs, true) // the requests were returned
			}
		}
		fromA, _ := a.count()
		fromB, _ := b.count()
		return fromA+fromB >= jobs
	})
	eventually(fx.t, "nothing is left", func() bool { d := fx.depth(normal); return d.Waiting+d.Taken == 0 })
	seen := map[string]bool{}
	for _, h := range []*recorder{a, b} {
		for d, ok := h.first(); ok; d, ok = h.first() {
			if seen[d.Subject] {
				fx.t.Errorf("%s was delivered twice within its lease", d.Subject)
			}
			seen[d.Subject] = true
		}
	}
}

func testStop(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{Lease: f.Lease})
	const jobs = 200
	h := takeAndAck(t, fx.Engine, normal)
	h.request(jobs, true)
	subjects := fx.jobs(normal, jobs/2)
	h.stop() // the recorder checks that nothing comes after
	h.taker.Request(5, true)
	h.taker.Stop() // a second time does no harm
	subjects = append(subjects, fx.jobs(normal, jobs/2)...)
	until(t, time.Now().Add(f.Late/5)) // an engine that continues has called by then
	other := fx.take(normal)
	seen := map[string]int{}
	for d, ok := h.first(); ok; d, ok = h.first() {
		seen[d.Subject]++
	}
	for len(seen) < len(subjects) {
		d := other.next()
		if d.Ack(); seen[d.Subject] > 0 {
			t.Errorf("%s was delivered to a taker that was stopped, and acknowledged, and delivered again", d.Subject)
		}
		seen[d.Subject]++
	}
}

func testDepth(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	if d := fx.depth(normal); d.Waiting != 0 || d.Taken != 0 || d.Paused || !d.Oldest.IsZero() {
		t.Errorf("Depth of nothing = %+v", d)
	}
	h := fx.take(normal)
	fx.jobs(normal, 5)
	oldest := fx.scan(engine.Jobs, "job.>")
	want := func(waiting, taken int, first engine.Message) {
		t.Helper()
		var d engine.Depth
		eventually(t, "Depth says so", func() bool { d = fx.depth(normal); return d.Waiting == waiting && d.Taken == taken })
		if off := d.Oldest.Sub(first.Time).Abs(); off > time.Millisecond || d.Paused {
			t.Errorf("Depth = %+v, want Oldest %v", d, first.Time)
		}
	}
	want(5, 0, oldest[0])
	first := h.next()
	if first.Waiting != 4 {
		t.Errorf("Waiting of the first delivery is %d, want 4", first.Waiting)
	}
	second := h.next()
	want(3, 2, oldest[0])
	first.Ack()
	want(3, 1, oldest[1])
	second.Nak(time.Hour)
	want(3, 1, oldest[1])
}

// random returns a source and its seed, which is printed.
func random(t *testing.T) (uint64, *rand.Rand) {
	t.Helper()
	seed := seedOf(t)
	t.Logf("BULLPEN_SEED=%d repeats this", seed)
	return seed, rand.New(rand.NewPCG(seed, seed))
}
