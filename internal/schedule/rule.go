// Package schedule says when things that recur are due: by the five fields of cron in
// a time zone, or every so often. It only reckons; package queue fires.
//
// What clocks do to a cron rule is in docs/schedules.md. In short: a rule whose hour
// and minute are fixed runs each of its times once a day, whatever the clock does; a
// rule with * in its hour or its minute follows the clock on the wall.
package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// Shortest is the shortest period that Every takes.
const Shortest = 100 * time.Millisecond

// A Rule says when something is due. Cron and Every make one, and it never changes: any
// number of goroutines may use it at once. It holds about 64 bytes, and refers to its
// zone. The zero Rule is never due.
type Rule struct {
	period time.Duration // of Every; 0 for cron
	from   time.Time     // of Every

	zone     *time.Location
	minutes  uint64 // bit n: minute n, and so on
	hours    uint32
	days     uint32 // of the month, from bit 1
	months   uint16 // from bit 1
	weekdays uint8  // bit 0: Sunday
	stars    uint8  // bit n: there is a * in field n
}

// Ticks stand in the years that RFC 3339 can write: from the first second of the year 1
// to the last of 9999.
const (
	firstSecond = -62_135_596_800
	lastSecond  = 253_402_300_799
)

// Every makes the rule with ticks at from, from+period, from+2*period and so on. They
// are reckoned from there, so they do not drift, and clock changes are nothing to
// them. There is none before from. Its times are in UTC. A period below Shortest is
// an error.
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
// time when there is none until the end of the year 9999. It takes less than a
// microsecond, a few for ticks that are years away, and allocates nothing.
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

// since returns how long before t the last tick of Every was; t is not before from.
// From the first year to the last there are more nanoseconds than an int64 holds.
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

// Between returns the ticks after from, up to and including to, in their order; of more
// than most of them the last. It takes as long as the ticks that it returns, not as
// all that there are: each second of a year is no more work than each day.
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

// last appends the ticks in (from, to] to those that it is given, newest first, until
// there are most of them. It looks into the later half first, and into no half
// without a tick.
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
