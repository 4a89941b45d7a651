package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/engine"
)

func testGet(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	for _, s := range engine.Streams() {
		subject := fresh(s)
		if m, err := fx.Get(fx.ctx(), s, subject); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("Get of nothing = %+v, %v, want ErrNotFound", m, err)
		}
		before := time.Now()
		seq := fx.message(s, subject, "data")
		m, err := fx.Get(fx.ctx(), s, subject)
		switch {
		case err != nil:
			t.Errorf("Get %s = %v", subject, err)
		case m.Stream != s || m.Subject != subject || m.Seq != seq || string(m.Data) != "data":
			t.Errorf("Get %s = %+v, want what was put as %d", subject, m, seq)
		case m.Time.Before(before.Add(-time.Second)) || m.Time.After(time.Now().Add(time.Second)):
			t.Errorf("Get %s says it was stored at %v, want %v", subject, m.Time, before)
		case !m.At.IsZero() || m.Target != "":
			t.Errorf("Get %s has At %v and Target %q, want neither", subject, m.At, m.Target)
		}
	}
}

func testGetWildcard(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	id, other := newID(), newID()
	fx.message(engine.Jobs, "job.mail.low."+id, "job")
	fx.message(engine.Jobs, "job.mail.high."+other, "other")
	fx.wantData(engine.Jobs, "job.*.*."+id, "job")
	fx.message(engine.Dead, "dead.one."+id, "older")
	fx.message(engine.Dead, "dead.two."+id, "newer")
	fx.message(engine.Dead, "dead.two."+other, "other")
	fx.wantData(engine.Dead, "dead.*."+id, "newer")
	fx.message(engine.Dead, "dead.one."+id, "newest")
	fx.wantData(engine.Dead, "dead.*."+id, "newest")
	fx.wantData(engine.Dead, "dead.two.*", "other")
	for _, none := range []string{"dead.three.*", "dead.*." + newID(), "dead.*", "dead.*.*." + id} {
		if m, err := fx.Get(fx.ctx(), engine.Dead, none); !errors.Is(err, engine.ErrNotFound) {
			t.Errorf("Get %s = %s, %v, want ErrNotFound", none, m.Subject, err)
		}
	}
}

func testDelete(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	for _, s := range engine.Streams() {
		subject, stays := fresh(s), fresh(s)
		seq := fx.message(s, subject, "")
		fx.message(s, stays, "stays")
		for range 2 { // the second time the message is gone, which is no error
			if err := fx.Delete(fx.ctx(), s, seq); err != nil {
				t.Fatalf("Delete of %d from %v = %v", seq, s, err)
			}
			if m, err := fx.Get(fx.ctx(), s, subject); !errors.Is(err, engine.ErrNotFound) {
				t.Errorf("Get %s = %+v, %v after Delete, want ErrNotFound", subject, m, err)
			}
		}
		if err := fx.Delete(fx.ctx(), s, seq+1000); err != nil {
			t.Errorf("Delete of what never was = %v, want nil", err)
		}
		fx.wantData(s, stays, "stays")
	}
}

func testDeleteOfJobs(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{Lease: f.Lease})
	subjects := fx.jobs(normal, 4)
	h := fx.take(normal)
	taken := h.next()
	all := fx.scan(engine.Jobs, "job.>")
	if len(all) != 4 {
		t.Fatalf("Scan gives %d messages, want 4", len(all))
	}
	for _, m := range []engine.Message{all[0], all[2]} { // one is taken, one waits
		if err := fx.Delete(fx.ctx(), engine.Jobs, m.Seq); err != nil {
			t.Fatalf("Delete = %v", err)
		}
	}
	for _, want := range []string{subjects[1], subjects[3]} {
		if d := h.next(); d.Subject != want {
			t.Errorf("%s was delivered, want %s: the one before it was deleted", d.Subject, want)
		} else {
			d.Ack()
		}
	}
	taken.Nak(0) // the message is gone
	if d, ok := h.by(time.Now().Add(f.Lease + f.Late)); ok {
		t.Errorf("%s was delivered, want nothing: it was deleted or acknowledged", d.Subject)
	}
	eventually(t, "the consumer is empty", func() bool { d := fx.depth(normal); return d.Waiting+d.Taken == 0 })
}

func testScanPages(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	const n = 57
	for i := range n {
		fx.message(engine.Outcomes, fresh(engine.Outcomes), fmt.Sprint(i))
	}
	for _, limit := range []int{1, 10, 57, 1000} {
		var got []string
		var last uint64
		for from := uint64(0); ; from = last + 1 {
			page, err := fx.Scan(fx.ctx(), engine.Outcomes, "out.>", from, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("Scan from %d, up to %d = %d messages, %v", from, limit, len(page), err)
			}
			for _, m := range page {
				if m.Seq <= last || m.Stream != engine.Outcomes || m.Time.IsZero() {
					t.Fatalf("Scan gives %+v after sequence number %d, want them in order and whole", m, last)
				}
				last = m.Seq
				got = append(got, string(m.Data))
			}
			if len(page) < limit { // fewer than limit means that no more exist
				break
			}
		}
		var want []string
		for i := range n {
			want = append(want, fmt.Sprint(i))
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d give %v, want all in order", limit, got)
		}
	}
}

func testScanPatterns(t *testing.T, f Factory) {
	fx := f.open(t, engine.Options{})
	for _, subject := range []string{"key.mail.a", "key.post.a", "try.a", "live.a", "set.mail.b", "key.mail.b"} {
		fx.message(engine.State, subject, "")
	}
	for _, c := range []struct {
		pattern string
		want    []string
	}{
		{">", []string{"key.mail.a", "key.post.a", "try.a", "live.a", "set.mail.b", "key.mail.b"}},
		{"key.>", []string{"key.mail.a", "key.post.a", "key.mail.b"}},
		{"key.mail.*", []string{"key.mail.a", "key.mail.b"}},
		{"key.*.a", []string{"key.mail.a", "key.post.a"}},
		{"*.mail.b", []string{"set.mail.b", "key.mail.b"}},
		{"*.a", []string{"try.a", "live.a"}},
		{"try.a", []string{"try.a"}},
		{"try.b", nil},
		{"key.mail", nil},
		{"key.mail.a.>", nil},
	} {
		var got []string
		for _, m := range fx.scan(engine.State, c.pattern) {
			got = append(got, m.Subject)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("Scan %s = %v, want %v", c.pattern, got, c.want)
		}
	}
	if got := fx.scan(engine.Dead, ">"); len(got) != 0 {
		t.Errorf("Scan of an empty stream = %v", got)
	}
}
