package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"

	bullpen "github.com/bullpen-run/bullpen"
)

func TestDerivedID(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123)
	a := derivedID(at, "cron", "nightly")
	if b := derivedID(at, "cron", "nightly"); a != b {
		t.Errorf("two ids of one thing: %s and %s", a, b)
	}
	for _, other := range []string{derivedID(at, "cron", "nightl", "y"), derivedID(at, "cronnightly"), derivedID(at.Add(time.Millisecond), "cron", "nightly")} {
		if other == a {
			t.Errorf("another thing has the id %s too", a)
		}
	}
	for _, at := range []time.Time{at, {}, time.Unix(1<<60, 0)} {
		id, err := ulid.ParseStrict(derivedID(at, "x"))
		if err != nil {
			t.Errorf("%v: %v", at, err)
		}
		if at.UnixMilli() == 1_700_000_000_123 && id.Timestamp() != at {
			t.Errorf("the id has the time %v, want %v", id.Timestamp(), at)
		}
	}
}

// TestDerivedRunsOnce enqueues a job again that has ended: it does not run again,
// and its outcome stays.
func TestDerivedRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		q := openOn(t, Config{})
		workOn(t, q, newTeam(1, func(context.Context, bullpen.Task) ([]byte, error) {
			runs++
			return []byte("done"), nil
		}), WorkConfig{})
		ctx := t.Context()
		id := derivedID(time.Now(), "test")
		for i := range 3 {
			s, err := q.prepare(&Job{Name: "test"})
			if err != nil {
				t.Fatal(err)
			}
			s.id = id
			if ref, err := q.enqueueDerived(ctx, s); err != nil || ref.ID != id {
				t.Fatalf("enqueued as %v: %v", ref, err)
			}
			if r, err := q.Wait(ctx, id); err != nil || string(r.Payload) != "done" {
				t.Fatalf("its end is %q, %v", r.Payload, err)
			}
			synctest.Wait() // until the second one has found the outcome
			if taken := q.Stats().Taken; taken != uint64(i+1) {
				t.Errorf("taken %d times, want %d", taken, i+1)
			}
		}
		if runs != 1 {
			t.Errorf("it ran %d times", runs)
		}
	})
}
