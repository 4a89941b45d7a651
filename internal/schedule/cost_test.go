package schedule

import (
	"testing"
	"time"
)

// costs are rules from the cheapest to those that have to look years ahead.
func costs(tb testing.TB) map[string]*Rule {
	tb.Helper()
	berlin := zone(tb, "Europe/Berlin")
	return map[string]*Rule{
		"minute":    cron(tb, "* * * * *", berlin),
		"daily":     cron(tb, "30 2 * * *", berlin),
		"utc":       cron(tb, "30 2 * * *", nil),
		"leap":      cron(tb, "0 0 29 2 *", berlin),
		"leap-star": cron(tb, "* * 29 2 *", berlin),
		"decades":   cron(tb, "0 0 29 2 */6", berlin),
		"every":     every(tb, time.Minute, noon),
	}
}

func TestNextAllocatesNothing(t *testing.T) {
	for name, r := range costs(t) {
		at := noon
		if n := testing.AllocsPerRun(100, func() { at = r.Next(at) }); n != 0 {
			t.Errorf("%s: Next allocates %v times", name, n)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for name, r := range costs(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Next(noon)
			}
		})
	}
}

func BenchmarkBetween(b *testing.B) {
	for name, r := range costs(b) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.Between(noon, noon.AddDate(1, 0, 0), 100)
			}
		})
	}
}

func BenchmarkCron(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Cron("*/15 9-17 * * mon-fri", nil); err != nil {
			b.Fatal(err)
		}
	}
}
