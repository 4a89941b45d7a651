package schedule

import (
	"testing"
	"time"
)

// FuzzCron wants no panic, ticks that rise and are due by what the clock shows, and a
// text that makes the same rule.
func FuzzCron(f *testing.F) {
	all := readVectors(f)
	for i, v := range all.Ticks {
		f.Add(v.Cron, uint16(i), v.From.Unix())
	}
	for i, v := range all.Errors {
		f.Add(v.Cron, uint16(i), int64(i)<<28)
	}
	zones := regions(f, firstYear, endYear)
	f.Fuzz(func(t *testing.T, text string, zone uint16, from int64) {
		z := zones[int(zone)%len(zones)].zone
		r, err := Cron(text, z)
		if err != nil {
			if len(err.Error()) > 10*longest+2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		again, err := Cron(r.String(), z)
		if err != nil || *again != *r {
			t.Fatalf("%q is written %q, which makes %+v, %v; want %+v", text, r, again, err, r)
		}
		at := time.Unix(from, 0)
		for range 20 {
			next := r.Next(at)
			if next.IsZero() {
				if at.Unix() < lastSecond-100*366*day {
					t.Fatalf("%q: none after %v", r, at)
				}
				return
			}
			if !next.After(at) {
				t.Fatalf("%q: after %v comes %v", r, at, next)
			}
			if got := r.Between(next.Add(-time.Second), next, 2); len(got) != 1 || !got[0].Equal(next) {
				t.Fatalf("%q: at %v are %v", r, next, got)
			}
			if shown := r.minutes>>next.Minute()&1 != 0 && r.hours>>next.Hour()&1 != 0; !shown && !(r.fixed() && gapEnds(next)) {
				t.Fatalf("%q: %v is none of its times", r, next)
			}
			at = next
		}
	})
}

// gapEnds says whether the clock leaps ahead right before t.
func gapEnds(t time.Time) bool {
	_, after := t.Zone()
	_, before := t.Add(-time.Second).Zone()
	return after > before
}
