package schedule

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func every(tb testing.TB, period time.Duration, from time.Time) *Rule {
	tb.Helper()
	r, err := Every(period, from)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// TestEvery has the tick after each time; the zero time means that there is none.
func TestEvery(t *testing.T) {
	t.Parallel()
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, c := range []struct {
		name              string
		period            time.Duration
		from, after, want time.Time
	}{
		{"before the first", time.Minute, noon, noon.AddDate(-5, 0, 0), noon},
		{"just before the first", time.Minute, noon, noon.Add(-1), noon},
		{"at the first", time.Minute, noon, noon, noon.Add(time.Minute)},
		{"between", time.Minute, noon, noon.Add(90 * time.Second), noon.Add(2 * time.Minute)},
		{"just before one", time.Minute, noon, noon.Add(2*time.Minute - 1), noon.Add(2 * time.Minute)},
		{"the shortest", Shortest, noon.Add(7), noon.Add(Shortest), noon.Add(Shortest + 7)},
		{"uneven parts of seconds", 300 * time.Millisecond, noon.Add(900 * time.Millisecond), noon.Add(time.Second), noon.Add(1200 * time.Millisecond)},
		{"another zone", time.Hour, noon, noon.Add(time.Hour).In(time.FixedZone("", 3600)), noon.Add(2 * time.Hour)},
		{"more than 292 years on", time.Hour, time.Time{}.UTC(), noon, noon.Add(time.Hour)},
		{"8000 years on by nanoseconds", 100_000_001, time.Unix(firstSecond, 0), time.Unix(lastSecond-1, 0), time.Unix(lastSecond-1, 78944427)},
		{"the longest", math.MaxInt64, noon, noon, noon.Add(math.MaxInt64)},
		{"the last second", time.Second, noon, last.Add(-1), last},
		{"none in the year 10000", time.Second, noon, last, time.Time{}},
		{"after all years", time.Second, noon, time.Unix(math.MaxInt64-62135596801, 0), time.Time{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := every(t, c.period, c.from).Next(c.after)
			if !got.Equal(c.want) {
				t.Errorf("Next(%v) = %v, want %v", c.after, got, c.want)
			}
		})
	}
}

func TestEveryErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		period time.Duration
		from   time.Time
		want   string
	}{
		{0, noon, "write a time such as"},
		{-time.Second, noon, "write a time such as"},
		{Shortest - 1, noon, "the shortest is 100ms"},
		{time.Second, time.Unix(lastSecond+1, 0), "years 1 to 9999"},
		{time.Second, time.Unix(firstSecond-1, 0), "years 1 to 9999"},
	} {
		if r, err := Every(c.period, c.from); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Every(%v, %v) = %v, %v; want an error with %q", c.period, c.from, r, err, c.want)
		}
	}
}

// TestBetween has the ticks between two times by their minutes after noon.
func TestBetween(t *testing.T) {
	t.Parallel()
	quarters := cron(t, "*/15 * * * *", nil)
	for _, c := range []struct {
		name           string
		rule           *Rule
		from, to, most int
		want           []int
	}{
		{"cron: the beginning is out, the end in", quarters, 0, 30, 9, []int{15, 30}},
		{"cron: the last of them", quarters, 0, 24 * 60 * 900, 2, []int{24*60*900 - 15, 24 * 60 * 900}},
		{"cron: none asked for", quarters, 0, 60, 0, nil},
		{"cron: fewer than none", quarters, 0, 60, -1, nil},
		{"cron: none there", quarters, 1, 14, 9, nil},
		{"cron: backwards", quarters, 60, 0, 9, nil},
		{"cron: the same", quarters, 15, 15, 9, nil},
		{"every: the beginning is out, the end in", every(t, 15*time.Minute, noon), 0, 30, 9, []int{15, 30}},
		{"every: the first", every(t, 15*time.Minute, noon), -60, 16, 9, []int{0, 15}},
		{"every: the last of them", every(t, 15*time.Minute, noon), -60, 24 * 60 * 900, 2, []int{24*60*900 - 15, 24 * 60 * 900}},
		{"every: before the first", every(t, 15*time.Minute, noon), -60, -1, 9, nil},
		{"every: none asked for", every(t, 15*time.Minute, noon), 0, 60, 0, nil},
		{"every: backwards", every(t, 15*time.Minute, noon), 60, 0, 9, nil},
		{"nothing", &Rule{}, 0, 60, 9, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
			var got []int
			for _, tick := range c.rule.Between(at(c.from), at(c.to), c.most) {
				got = append(got, int(tick.Sub(noon)/time.Minute))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("minutes %v, want %v", got, c.want)
			}
		})
	}
}

// TestBetweenFar asks for the last ticks of thousands of years, which nobody may walk.
func TestBetweenFar(t *testing.T) {
	t.Parallel()
	begin, end := time.Unix(firstSecond, 0), time.Unix(lastSecond, 0)
	for _, r := range []*Rule{cron(t, "* * * * *", nil), every(t, time.Second, begin), every(t, Shortest, begin)} {
		start := time.Now()
		got := r.Between(begin, end, 1000)
		if len(got) != 1000 || got[999].After(end) || end.Sub(got[999]) > time.Minute {
			t.Errorf("%v: %d ticks until %v", r, len(got), got[len(got)-1])
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%v: took %v", r, took)
		}
	}
}

// TestEnds asks at the ends of all years.
func TestEnds(t *testing.T) {
	t.Parallel()
	r := cron(t, "0 12 * * *", nil)
	first := time.Date(1, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, after := range []time.Time{{}, time.Unix(firstSecond-1e15, 0), time.Unix(math.MinInt64, 0)} {
		if got := r.Next(after); !got.Equal(first) {
			t.Errorf("the first after %v is %v, want %v", after, got, first)
		}
	}
	for _, after := range []time.Time{time.Unix(lastSecond-3600, 0), time.Unix(lastSecond, 1), time.Unix(lastSecond+1e15, 0)} {
		if got := r.Next(after); !got.IsZero() {
			t.Errorf("the first after %v is %v, want none", after, got)
		}
	}
	if got := (&Rule{}).Next(noon); !got.IsZero() {
		t.Errorf("a rule that nobody made is due at %v", got)
	}
}

// TestZoneOfTicks wants ticks in the zone of the rule, so that they print as meant.
func TestZoneOfTicks(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	if got := cron(t, "0 12 * * *", berlin).Next(noon); got.Location() != berlin || got.Hour() != 12 {
		t.Errorf("the tick is %v, want it in %v", got, berlin)
	}
	if got := every(t, time.Hour, noon.In(berlin)).Next(time.Now()); got.Location() != time.UTC {
		t.Errorf("the tick is %v, want it in UTC", got)
	}
}

// TestNames walks all names of months and days.
func TestNames(t *testing.T) {
	t.Parallel()
	for m := time.January; m <= time.December; m++ {
		name := m.String()[:3]
		if got := cron(t, "0 0 1 "+name+" *", nil).Next(noon); got.Month() != m {
			t.Errorf("%s is due in %v", name, got.Month())
		}
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := d.String()[:3]
		if got := cron(t, "0 0 * * "+name, nil).Next(noon); got.Weekday() != d {
			t.Errorf("%s is due on %v", name, got.Weekday())
		}
	}
}

// TestString has what a rule is written as.
func TestString(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"@daily":                    "0 0 * * *",
		"00 2 * JAN-mar mon-fri":    "0 2 * 1-3 1-5",
		"5,3,4,1,0 0 1,2,4 * 7,0":   "0,1,3-5 0 1,2,4 * 0",
		"*/15 */2 */2 */3 */2":      "*/15 */2 */2 */3 */2",
		"*/15,7,* 1 * * *":          "* 1 * * *",
		"*/20,7 0-23 1-31 1-12 0-7": "*/20,7 0-23 1-31 1-12 0-6",
		"*/30,59,*/59 0 * * *":      "*/30,59 0 * * *",
	} {
		if got := cron(t, text, nil).String(); got != want {
			t.Errorf("%q is written %q, want %q", text, got, want)
		}
		if got := cron(t, want, nil).String(); got != want {
			t.Errorf("%q is written %q", want, got)
		}
	}
	if got := every(t, 90*time.Second, noon).String(); got != "every 1m30s" {
		t.Errorf("it is written %q", got)
	}
}

// TestLong bounds what errors repeat.
func TestLong(t *testing.T) {
	t.Parallel()
	_, err := Cron(strings.Repeat("ü", 5000), nil)
	if err == nil || len(err.Error()) > 250 {
		t.Errorf("the error of a long text is %v", err)
	}
	if _, err := Cron(strings.Repeat("1,", 190)+"1 * * * *", nil); err != nil {
		t.Errorf("a long list: %v", err)
	}
}
