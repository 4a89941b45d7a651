// Package schedule computes when recurring things are due: by the five fields of cron in
// a time zone, or with a fixed period. It only computes; package queue fires.
//
// docs/schedules.md describes how clock changes affect a cron rule. In short: a rule with
// a fixed hour and minute runs each of its times once a day, whatever the clock does; a
// rule with * in its hour or its minute follows the wall clock.
package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Shortest is the shortest period that Every accepts.
const Shortest = 100 * time.Millisecond

// A Rule determines when something is due. Cron and Every make rules. A Rule is immutable
// and safe for concurrent use. It takes about 64 bytes, and refers to its zone. The zero
// Rule is never due.
type Rule struct {
	period time.Duration // of Every; 0 for cron
	from   time.Time     // of Every

	zone     *time.Location
	minutes  uint64 // bit n: minute n, and so on
	hours    uint32
	days     uint32 // of the month, from bit 1
	months   uint16 // from bit 1
	weekdays uint8  // bit 0: Sunday
	stars    uint8  // bit n: field n contains a *
}

// Ticks lie in the years that RFC 3339 can express: from the first second of the year 1
// to the last of 9999.
const (
	firstSecond = -62_135_596_800
	lastSecond  = 253_402_300_799
)

// Every returns the rule with ticks at from, from+period, from+2*period and so on. Ticks
// are computed from there, so they do not drift, and clock changes do not affect them. No
// tick comes before from. The times are in UTC. A period below Shortest is an error.
func Every(period time.Duration, from time.Time) (*Rule, error) {
	switch {
	case period <= 0:
		return nil, fmt.Errorf("every %v: it has to be above 0: write a time such as 30s, 5m or 1h", period)
	case period < Shortest:
		return nil, fmt.Errorf("every %v: the shortest is %v: let one job do more at a time", period, Shortest)
	case from.Unix() < firstSecond || from.Unix() > lastSecond:
		return nil, errors.New("every: it begins outside the years 1 to 9999: take a beginning within them")
	}
	return &Rule{period: period, from: from.Round(0).UTC()}, nil
}

// Next returns the first tick after the given time, in the zone of the rule; the zero
// time if there is none up to the end of the year 9999. It takes less than a microsecond,
// or a few for ticks that are years away, and does not allocate.
func (r *Rule) Next(after time.Time) time.Time {
	if after.Unix() > lastSecond {
		return time.Time{}
	}
	if r.period > 0 {
		return r.nextPeriod(after)
	}
	if r.minutes == 0 {
		return time.Time{}
	}
	next := r.nextShown
	if r.fixed() {
		next = r.nextFixed
	}
	second, ok := next(max(after.Unix(), firstSecond-1))
	if !ok {
		return time.Time{}
	}
	return time.Unix(second, 0).In(r.zone)
}

func (r *Rule) nextPeriod(after time.Time) time.Time {
	next := r.from
	if !after.Before(next) {
		after = after.Round(0).UTC()
		next = after.Add(r.period - r.since(after))
	}
	if next.Unix() > lastSecond {
		return time.Time{}
	}
	return next
}

// since returns the time between t and the last tick of Every before it; t is not before
// from. The nanoseconds from the first year to the last exceed an int64.
func (r *Rule) since(t time.Time) time.Duration {
	nanos := int64(t.Nanosecond()) - int64(r.from.Nanosecond())
	seconds := t.Unix() - r.from.Unix()
	if nanos < 0 {
		nanos += int64(time.Second)
		seconds--
	}
	high, low := bits.Mul64(uint64(seconds), uint64(time.Second))
	low, carry := bits.Add64(low, uint64(nanos), 0)
	return time.Duration(bits.Rem64(high+carry, low, uint64(r.period)))
}

// Between returns the ticks after from, up to and including to, in their order; if there
// are more than most, it returns the last ones. Its time depends on the ticks that it
// returns, not on those in the range: a tick each second of a year is no more work than
// one each day.
func (r *Rule) Between(from, to time.Time, most int) []time.Time {
	var ticks []time.Time
	if r.period > 0 {
		ticks = r.lastPeriods(from, to, most)
	} else {
		ticks = r.last(nil, from, to, most)
	}
	slices.Reverse(ticks)
	return ticks
}

func (r *Rule) lastPeriods(from, to time.Time, most int) []time.Time {
	to = to.Round(0).UTC()
	if to.Unix() > lastSecond {
		to = time.Unix(lastSecond, 0).UTC()
	}
	if to.Before(r.from) {
		return nil
	}
	var ticks []time.Time
	tick := to.Add(-r.since(to))
	for len(ticks) < most && tick.After(from) && !tick.Before(r.from) {
		ticks = append(ticks, tick)
		tick = tick.Add(-r.period)
	}
	return ticks
}

// last appends the ticks in (from, to] to ticks, newest first, up to most in total. It
// searches the later half first, and skips a half without a tick.
func (r *Rule) last(ticks []time.Time, from, to time.Time, most int) []time.Time {
	if len(ticks) >= most {
		return ticks
	}
	tick := r.Next(from)
	if tick.IsZero() || tick.After(to) {
		return ticks
	}
	if length := to.Sub(from); length > time.Hour {
		middle := from.Add(length / 2)
		ticks = r.last(ticks, middle, to, most)
		return r.last(ticks, from, middle, most)
	}
	var found []time.Time
	for ; !tick.IsZero() && !tick.After(to); tick = r.Next(tick) {
		found = append(found, tick)
	}
	for len(ticks) < most && len(found) > 0 {
		ticks = append(ticks, found[len(found)-1])
		found = found[:len(found)-1]
	}
	return ticks
}
