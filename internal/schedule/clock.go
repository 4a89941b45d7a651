package schedule

import (
	"math/bits"
	"time"
)

// All computation is in seconds, of two kinds: Unix time, and the wall clock's time
// written as if it were in UTC. A minute of the wall clock is that many seconds divided
// by 60.
const (
	minute = 60
	day    = 24 * 60 * minute

	// horizon exceeds every change of a clock; the largest was 24 hours and 40 minutes.
	horizon = 2 * day
)

// fixed reports whether each time of the rule is due once a day. Other rules are due
// whenever the clock shows one of their times.
func (r *Rule) fixed() bool { return r.stars&(1<<minuteField|1<<hourField) == 0 }

// nextShown returns the first second after the given one at which the clock shows a
// time of the rule.
func (r *Rule) nextShown(after int64) (int64, bool) {
	now := after + 1
	for {
		offset, end := span(r.zone, now)
		shown, ok := r.nextMinute(-floor(-(now + offset), minute))
		if !ok {
			return 0, false
		}
		tick := shown*minute - offset
		switch {
		case tick < end:
			return tick, true
		case end-now > horizon:
			// No later change can show times before now again, so nothing is due until
			// shortly before the tick.
			now = max(end, tick-horizon)
		default:
			now = end
		}
	}
}

// nextFixed returns the first second after the given one at which the clock first reaches
// a time of the rule, by showing it or by skipping it. So a time shown twice is due once,
// and a time never shown is due at the end of the gap.
func (r *Rule) nextFixed(after int64) (int64, bool) {
	start := after - horizon
	offset, end := span(r.zone, start)
	reached := start + offset // the latest time that the clock has shown
	for end <= after {
		reached = max(reached, end-1+offset)
		start = end
		offset, end = span(r.zone, start)
	}
	reached = max(reached, after+offset)
	start = after
	next, ok := r.nextMinute(floor(reached, minute) + 1)
	for ok {
		due, shows := next*minute, start+offset
		midnight := floor(due, day) * day
		switch {
		case due < shows && reached < midnight && midnight+day <= shows:
			// The clock skipped the whole day, so nothing is due for it.
			next, ok = r.nextMinute((midnight + day) / minute)
			continue
		case due < shows:
			return start, true
		case due-offset < end:
			return due - offset, true
		}
		reached = max(reached, end-1+offset)
		start = max(end, due-offset-horizon)
		offset, end = span(r.zone, start)
	}
	return 0, false
}

// span returns how far the zone is ahead of UTC at a second, and until when that holds at
// least.
func span(zone *time.Location, second int64) (offset, end int64) {
	t := time.Unix(second, 0).In(zone)
	_, ahead := t.Zone()
	_, bound := t.ZoneBounds()
	if bound.IsZero() {
		return int64(ahead), 1 << 60
	}
	end = bound.Unix()
	if end <= second {
		// If a zone follows a rule for all years to come, package time takes each year
		// for 365 days. Nothing changes on the last day of a longer one.
		end = (floor(second, day) + 1) * day
	}
	return int64(ahead), end
}

// nextMinute returns the first minute of the rule that is not before the given one.
func (r *Rule) nextMinute(from int64) (int64, bool) {
	first := floor(from, day/minute)
	on, ok := r.nextDay(first)
	if ok && on == first {
		if m, ok := r.minuteOfDay(int(from - first*day/minute)); ok {
			return on*day/minute + int64(m), true
		}
		on, ok = r.nextDay(first + 1)
	}
	m, _ := r.minuteOfDay(0)
	return on*day/minute + int64(m), ok
}

// minuteOfDay returns the first minute of a day that is not before the given one.
func (r *Rule) minuteOfDay(from int) (int, bool) {
	hour := from / 60
	if r.hours>>hour&1 != 0 {
		if left := r.minutes >> (from % 60); left != 0 {
			return from + bits.TrailingZeros64(left), true
		}
	}
	left := r.hours >> (hour + 1)
	if left == 0 {
		return 0, false
	}
	return 60*(hour+1+bits.TrailingZeros32(left)) + bits.TrailingZeros64(r.minutes), true
}

// nextDay returns the first day of the rule that is not before the given one, counted
// from 1 January 1970; false if there is none up to the end of the year 9999.
func (r *Rule) nextDay(from int64) (int64, bool) {
	year, month, date := time.Unix(from*day, 0).UTC().Date()
	first := from - int64(date-1)
	left := ^uint32(0) << date
	for year <= 9999 {
		length := daysIn(year, month)
		if r.months>>month&1 != 0 {
			if days := r.daysOf(first, length) & left; days != 0 {
				return first + int64(bits.TrailingZeros32(days)) - 1, true
			}
		}
		left = ^uint32(0)
		first += int64(length)
		if month++; month > time.December {
			month = time.January
			year++
		}
	}
	return 0, false
}

// daysOf returns the days of the rule in a month, from bit 1. first is the month's first
// day, length its length.
func (r *Rule) daysOf(first int64, length int) uint32 {
	begins := (first + 4) - 7*floor(first+4, 7) // 1 January 1970 was a Thursday
	week := uint64(r.weekdays)>>begins | uint64(r.weekdays)<<(7-begins)
	week &= 1<<7 - 1
	byWeekday := uint32(week * (1 | 1<<7 | 1<<14 | 1<<21 | 1<<28) << 1)
	days := r.days | byWeekday
	if r.stars&(1<<dayField|1<<weekdayField) != 0 {
		days = r.days & byWeekday
	}
	return days & (1<<(length+1) - 2)
}

func daysIn(year int, month time.Month) int {
	switch month {
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case time.April, time.June, time.September, time.November:
		return 30
	default:
		return 31
	}
}

// floor divides and rounds down, including negative numbers.
func floor(n, by int64) int64 {
	quotient := n / by
	if n%by < 0 {
		quotient--
	}
	return quotient
}
