package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// wish is a cron rule as sets of numbers, together with one way to write it.
type wish struct {
	text  string
	sets  [5]map[int]bool
	stars [5]bool
}

// randomWish makes a rule. Most are due about once a day, so that odd nights count.
func randomWish(r *rand.Rand) wish {
	var w wish
	var texts []string
	stars := [5]int{8, 15, 70, 85, 75} // in percent
	for i, bound := range [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}} {
		w.sets[i] = map[int]bool{}
		low, high := bound[0], bound[1]
		if i == 1 && r.IntN(2) == 0 {
			high = 4 // when clocks change
		}
		var text string
		if w.stars[i] = r.IntN(100) < stars[i]; w.stars[i] {
			text = w.add(i, bound[0], bound[1], 1+r.IntN(3), true)
		} else {
			var items []string
			for range 1 + r.IntN(2)*r.IntN(3) {
				a := low + r.IntN(high-low+1)
				b := a
				if r.IntN(4) == 0 {
					b += r.IntN(high - a + 1)
				}
				items = append(items, w.add(i, a, b, 1+r.IntN(3), false))
			}
			text = strings.Join(items, ",")
		}
		texts = append(texts, text)
	}
	w.text = strings.Join(texts, " ")
	return w
}

// add puts numbers into a set and returns how they are written.
func (w *wish) add(set, low, high, step int, star bool) string {
	for n := low; n <= high; n += step {
		w.sets[set][n] = true
	}
	switch {
	case star && step == 1:
		return "*"
	case star:
		return fmt.Sprintf("*/%d", step)
	case low == high:
		return fmt.Sprint(low)
	case step == 1:
		return fmt.Sprintf("%d-%d", low, high)
	default:
		return fmt.Sprintf("%d-%d/%d", low, high, step)
	}
}

// onDay says whether the rule is due on a date.
func (w *wish) onDay(date time.Time) bool {
	inMonth, inWeek := w.sets[2][date.Day()], w.sets[4][int(date.Weekday())]
	if !w.sets[3][int(date.Month())] {
		return false
	}
	if w.stars[2] || w.stars[4] {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// possible says whether the rule is due on any day at all; the calendar repeats itself
// after 400 years.
func (w *wish) possible() bool {
	for date := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); date.Year() < 2400; date = date.AddDate(0, 0, 1) {
		if w.onDay(date) {
			return true
		}
	}
	return false
}

// A walk is what the clock on the wall shows in each minute of a time, and three days
// before and after. What it shows is a number of minutes since 1970, as if in UTC.
type walk struct {
	from, to int64   // Unix minutes
	shown    []int64 // by Unix minute, from `from` less margin
	lowest   int64   // of what is shown
	first    []int64 // the Unix minute that shows it first, or never; from lowest on
	dates    []bool  // which are shown at all; from the day of lowest on
}

const (
	never  = -1 << 62
	margin = 3 * 24 * 60
	daily  = 24 * 60
)

func newWalk(z *time.Location, from, to time.Time) *walk {
	w := &walk{from: from.Unix() / 60, to: to.Unix() / 60}
	w.shown = make([]int64, 0, w.to-w.from+2*margin+1)
	highest := int64(never)
	w.lowest = 1 << 62
	for m := w.from - margin; m <= w.to+margin; m++ {
		_, ahead := time.Unix(m*60, 0).In(z).Zone()
		s := m + int64(ahead)/60
		w.shown = append(w.shown, s)
		w.lowest, highest = min(w.lowest, s), max(highest, s)
	}
	w.lowest -= w.lowest % daily
	w.first = slices.Repeat([]int64{never}, int(highest-w.lowest+1))
	w.dates = make([]bool, len(w.first)/daily+1)
	for i, s := range w.shown {
		if at := &w.first[s-w.lowest]; *at == never {
			*at = w.from - margin + int64(i)
		}
		w.dates[(s-w.lowest)/daily] = true
	}
	return w
}

// ticks returns when the rule is due, in Unix minutes, by looking at each minute.
func (w *walk) ticks(rule *wish) []int64 {
	days := make([]bool, len(w.dates))
	for i := range days {
		days[i] = rule.onDay(time.Unix((w.lowest+int64(i)*daily)*60, 0).UTC())
	}
	minutes := make([]bool, daily)
	for i := range minutes {
		minutes[i] = rule.sets[1][i/60] && rule.sets[0][i%60]
	}
	due := func(shown int64) bool {
		return days[(shown-w.lowest)/daily] && minutes[shown%daily]
	}
	if rule.stars[0] || rule.stars[1] {
		var ticks []int64
		for i, s := range w.shown {
			if due(s) {
				ticks = append(ticks, w.from-margin+int64(i))
			}
		}
		return w.within(ticks)
	}
	var ticks []int64
	for i, at := range w.first {
		if !w.dates[i/daily] || !due(w.lowest+int64(i)) {
			continue // the date never was, or the rule does not mean it
		}
		if at == never { // skipped: as soon as anything later is shown
			for _, at = range w.first[i:] {
				if at != never {
					break
				}
			}
		}
		if at != never {
			ticks = append(ticks, at)
		}
	}
	return w.within(ticks)
}

// within leaves out what is in the margins, and what is there twice.
func (w *walk) within(ticks []int64) []int64 {
	ticks = slices.DeleteFunc(ticks, func(m int64) bool { return m <= w.from || m > w.to })
	return slices.Compact(ticks)
}
