package record

import (
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
)

func TestDerivedID(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_700_000_000_123)
	a := DerivedID(at, "cron", "nightly")
	if b := DerivedID(at, "cron", "nightly"); a != b {
		t.Errorf("two ids of one thing: %s and %s", a, b)
	}
	for _, other := range []string{DerivedID(at, "cron", "nightl", "y"), DerivedID(at, "cronnightly"), DerivedID(at.Add(time.Millisecond), "cron", "nightly")} {
		if other == a {
			t.Errorf("another thing has the id %s too", a)
		}
	}
	for _, at := range []time.Time{at, {}, time.Unix(1<<60, 0)} {
		id, err := ulid.ParseStrict(DerivedID(at, "x"))
		if err != nil {
			t.Errorf("%v: %v", at, err)
		}
		if at.UnixMilli() == 1_700_000_000_123 && id.Timestamp() != at {
			t.Errorf("the id has the time %v, want %v", id.Timestamp(), at)
		}
	}
}
