package schedule

import (
	_ "embed"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The years in which the rules are walked.
const (
	firstYear = 1990
	endYear   = 2040
)

// zoneNames are all names of the zone database (go's lib/time/zoneinfo.zip, 2025c).
//
//go:embed testdata/zones.txt
var zoneNames string

// A region is a zone whose clock changes, with the moments at which it does.
type region struct {
	name    string
	zone    *time.Location
	changes []time.Time
}

// regions returns all zones whose offset changes between the two years, each once.
func regions(tb testing.TB, first, end int) []region {
	tb.Helper()
	var all []region
	seen := map[string]bool{}
	for name := range strings.FieldsSeq(zoneNames) {
		r := region{name: name, zone: zone(tb, name)}
		var key strings.Builder
		last := 1 << 30
		until := time.Date(end, 1, 1, 0, 0, 0, 0, time.UTC)
		for t := time.Date(first, 1, 1, 0, 0, 0, 0, time.UTC); t.Before(until); {
			_, offset := t.In(r.zone).Zone()
			if offset != last {
				key.WriteString(t.Format(time.RFC3339))
				key.WriteString((time.Duration(offset) * time.Second).String())
				r.changes = append(r.changes, t)
				last = offset
			}
			_, bound := t.In(r.zone).ZoneBounds()
			if bound.IsZero() {
				break
			}
			if !bound.After(t) {
				bound = t.Add(time.Hour)
			}
			t = bound.UTC()
		}
		r.changes = r.changes[1:] // the beginning is none
		if len(r.changes) > 0 && !seen[key.String()] {
			seen[key.String()] = true
			all = append(all, r)
		}
	}
	if len(all) < 200 {
		tb.Fatalf("%d zones have changes, want at least 200", len(all))
	}
	return all
}

// seeded returns random numbers whose seed the test prints when it fails.
func seeded(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed := rand.Uint64()
	tb.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// checkWindow compares rules with the slow walk between two times.
func checkWindow(t *testing.T, random *rand.Rand, g *region, from, to time.Time, rules int) (ticks int) {
	t.Helper()
	w := newWalk(g.zone, from, to)
	for range rules {
		wish := randomWish(random)
		r, err := Cron(wish.text, g.zone)
		if err != nil {
			if wish.possible() {
				t.Errorf("Cron(%q): %v; but it is due on some day", wish.text, err)
			}
			continue
		}
		want := w.ticks(&wish)
		ticks += len(want)
		at := time.Unix(w.from*60, 0)
		for i := 0; ; i++ {
			after := at
			at = r.Next(after)
			if i == len(want) {
				if !at.IsZero() && at.Unix() <= w.to*60 {
					t.Fatalf("%q in %s: after %v comes %v, want none until %v", wish.text, g.name, after.In(g.zone), at, to)
				}
				break
			}
			if at.Unix() != want[i]*60 || at.Nanosecond() != 0 {
				t.Fatalf("%q in %s: after %v comes %v, want %v", wish.text, g.name, after.In(g.zone), at, time.Unix(want[i]*60, 0).In(g.zone))
			}
		}
		for range 4 {
			checkRandom(t, random, g, r, w, want)
		}
	}
	return ticks
}

// checkRandom begins at any moment, most often near a change, and looks forward and
// back.
func checkRandom(t *testing.T, random *rand.Rand, g *region, r *Rule, w *walk, want []int64) {
	t.Helper()
	anywhere := func() int64 { return w.from*60 + random.Int64N((w.to-w.from)*60) }
	from := anywhere()
	near := g.changes[random.IntN(len(g.changes))].Unix() - 4*3600 + random.Int64N(8*3600)
	if near > w.from*60 && near < w.to*60 {
		from = near
	}
	i, _ := slices.BinarySearchFunc(want, from, func(m, s int64) int {
		if m*60 <= s {
			return -1
		}
		return 1
	})
	after := time.Unix(from, random.Int64N(1e9))
	next := r.Next(after)
	if i < len(want) && next.Unix() != want[i]*60 || i == len(want) && !next.IsZero() && next.Unix() <= w.to*60 {
		t.Fatalf("%q in %s: after %v comes %v, want number %d of %d", r, g.name, after.In(g.zone), next, i, len(want))
	}
	end := anywhere()
	most := 1 + random.IntN(40)
	var between []int64
	for _, m := range want {
		if m*60 > from && m*60 <= end {
			between = append(between, m*60)
		}
	}
	between = between[max(0, len(between)-most):]
	got := r.Between(after, time.Unix(end, 0), most)
	if !slices.EqualFunc(got, between, func(t time.Time, s int64) bool { return t.Unix() == s }) {
		t.Fatalf("%q in %s: the last %d between %v and %v are %v, want %v", r, g.name, most, after.In(g.zone), time.Unix(end, 0).In(g.zone), got, between)
	}
}

// TestOddNights compares random rules with the slow walk around changes of all zones.
func TestOddNights(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	ticks := 0
	for _, g := range regions(t, firstYear, endYear) {
		change := g.changes[random.IntN(len(g.changes))]
		ticks += checkWindow(t, random, &g, change.Add(-36*time.Hour), change.Add(72*time.Hour), 12)
	}
	if ticks < 1000 {
		t.Errorf("only %d ticks were compared", ticks)
	}
	t.Logf("%d ticks compared", ticks)
}

// TestFiftyYears compares random rules with the slow walk in each year and all zones
// whose clocks change; under the race detector in one year of each, because an hour
// would find no more races.
func TestFiftyYears(t *testing.T) {
	if os.Getenv("BULLPEN_LONG") == "" {
		t.Skip("takes ten minutes of two processors: set BULLPEN_LONG=1")
	}
	t.Parallel()
	var ticks, years atomic.Int64
	t.Cleanup(func() { t.Logf("%d ticks in %d years of zones compared", ticks.Load(), years.Load()) })
	for _, g := range regions(t, firstYear, endYear) {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			random := seeded(t)
			first, end := firstYear, endYear
			if raced {
				first += random.IntN(endYear - firstYear)
				end = first + 1
			}
			for year := first; year < end; year++ {
				from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
				ticks.Add(int64(checkWindow(t, random, &g, from, from.AddDate(1, 0, 0), 6)))
				years.Add(1)
			}
		})
	}
}
