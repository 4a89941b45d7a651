package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// longest exceeds every sensible rule; it bounds what errors repeat.
const longest = 400

const (
	minuteField = iota
	hourField
	dayField
	monthField
	weekdayField
)

// A field is one of the five fields of cron.
type field struct {
	name      string
	low, high int    // the range of *
	most      int    // the largest valid number
	names     string // three letters each, starting at low
	example   string
}

// fields returns the fields of cron, in their order.
func fields() [5]field {
	return [5]field{
		{"minute", 0, 59, 59, "", "0, */15 or 0,30"},
		{"hour", 0, 23, 23, "", "2, */4 or 9-17"},
		{"day of month", 1, 31, 31, "", "1, */2 or 1-7"},
		{"month", 1, 12, 12, "janfebmaraprmayjunjulaugsepoctnovdec", "1, jan or 4-9"},
		{"day of week", 0, 6, 7, "sunmontuewedthufrisat", "1, mon or mon-fri"},
	}
}

// shorthands returns the rules that the names with @ stand for.
func shorthands() map[string]string {
	return map[string]string{
		"@hourly":   "0 * * * *",
		"@daily":    "0 0 * * *",
		"@midnight": "0 0 * * *",
		"@weekly":   "0 0 * * 0",
		"@monthly":  "0 0 1 * *",
		"@yearly":   "0 0 1 1 *",
		"@annually": "0 0 1 1 *",
	}
}

// Cron returns the rule for the five fields of cron: minute, hour, day of month, month
// and day of week; or for a name such as @daily. A field is *, a number, a range (9-17),
// one of these with a step (*/15, 9-17/2), or a list of such. Months and days of the week
// have English names of three letters; Sunday is 0 and 7. If neither day of month nor day
// of week has a *, a day matches if either matches; otherwise both must match. A nil zone
// is UTC. Rules of one zone should share it: time.LoadLocation takes 5 kB and 25 µs each
// time.
//
// The error lists all faults, each with its field and what to write instead. That no day
// ever matches (0 0 31 2 *) is a fault too.
func Cron(text string, zone *time.Location) (*Rule, error) {
	if zone == nil {
		zone = time.UTC
	}
	if len(text) > longest {
		return nil, fmt.Errorf("cron %q...: it has %d bytes; write at most %d, or make two schedules of it", text[:20], len(text), longest)
	}
	parts, err := split(text)
	if err != nil {
		return nil, fmt.Errorf("cron %q: %w", text, err)
	}
	r := &Rule{zone: zone}
	var sets [5]uint64
	var faults []error
	for i, f := range fields() {
		set, star, err := f.parse(parts[i])
		if err != nil {
			faults = append(faults, fmt.Errorf("cron %q: %s: %w", text, f.name, err))
		}
		if star {
			r.stars |= 1 << i
		}
		sets[i] = set
	}
	if faults != nil {
		return nil, errors.Join(faults...)
	}
	r.minutes = sets[minuteField]
	r.hours = uint32(sets[hourField])
	r.days = uint32(sets[dayField])
	r.months = uint16(sets[monthField])
	r.weekdays = uint8(sets[weekdayField])
	if _, ok := r.nextDay(0); !ok {
		return nil, fmt.Errorf("cron %q: it is never due: no month of %q has a day %s; write a day that the month has", text, parts[monthField], parts[dayField])
	}
	return r, nil
}

// split returns the five fields, in lower case.
func split(text string) ([]string, error) {
	parts := strings.Fields(strings.ToLower(text))
	if len(parts) == 0 {
		return nil, errors.New(`it is empty: write five fields (minute, hour, day of month, month, day of week), such as "30 2 * * *"`)
	}
	switch first := parts[0]; {
	case first == "@every":
		return nil, errors.New("@every is not cron: give the time as the schedule's every")
	case first == "@reboot":
		return nil, errors.New("@reboot has no times: enqueue the job when the program starts")
	case first[0] == '@':
		long := shorthands()[first]
		if long == "" || len(parts) > 1 {
			return nil, errors.New("write @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually, alone, or five fields")
		}
		return strings.Fields(long), nil
	case strings.HasPrefix(first, "tz=") || strings.HasPrefix(first, "cron_tz="):
		return nil, errors.New("it begins with a time zone: give that as the schedule's zone")
	}
	switch {
	case len(parts) == 6:
		return nil, errors.New("it has six fields, not five: leave out seconds (the first) or years (the last), and put no blanks into a list; what is due more than once a minute needs every")
	case len(parts) != 5:
		return nil, fmt.Errorf(`it has %d fields, not five: write minute, hour, day of month, month and day of week, such as "30 2 * * *"`, len(parts))
	}
	return parts, nil
}

// parse returns the numbers of a field as bits, and whether it contains a *.
func (f field) parse(text string) (set uint64, star bool, err error) {
	for item := range strings.SplitSeq(text, ",") {
		low, high, step, err := f.item(item)
		if err != nil {
			return 0, false, err
		}
		star = star || item[0] == '*'
		for n := low; n <= high; n += step {
			if f.high == 6 && n == 7 {
				set |= 1
				continue
			}
			set |= 1 << n
		}
	}
	return set, star, nil
}

// item parses one part of a list.
func (f field) item(text string) (low, high, step int, err error) {
	span, by, stepped := strings.Cut(text, "/")
	first, last, ranged := strings.Cut(span, "-")
	switch {
	case text == "":
		return 0, 0, 0, fmt.Errorf("there is nothing between two commas or at an end; write %s", f.example)
	case span == "*":
		low, high = f.low, f.high
	case ranged:
		low, high, err = f.ends(first, last)
	default:
		low, err = f.number(first)
		high = low
		if err == nil && stepped {
			err = fmt.Errorf("%q has a step, but no range; write %s-%d/%s", text, first, f.high, by)
		}
	}
	if err != nil || !stepped {
		return low, high, 1, err
	}
	step, ok := digits(by)
	switch {
	case !ok || step == 0:
		return 0, 0, 0, fmt.Errorf("the step of %q is not a number above 0; write %s", text, f.example)
	case step > f.high-f.low:
		return 0, 0, 0, fmt.Errorf("the step of %q leads beyond %d, so only the first would be left; write %d", text, f.high, low)
	}
	return low, high, step, nil
}

// ends parses both ends of a range.
func (f field) ends(first, last string) (low, high int, err error) {
	low, err = f.number(first)
	if err != nil {
		return 0, 0, err
	}
	high, err = f.number(last)
	if err != nil {
		return 0, 0, err
	}
	if last == "sun" && low > 0 {
		high = 7 // fri-sun
	}
	if low > high {
		return 0, 0, fmt.Errorf("%s-%s runs backwards; write %s-%d,%d-%s", first, last, first, f.high, f.low, last)
	}
	return low, high, nil
}

// number parses a number or a name.
func (f field) number(text string) (int, error) {
	if n, ok := digits(text); ok {
		if n < f.low || n > f.most {
			return 0, fmt.Errorf("%s is not from %d to %d; write %s", text, f.low, f.most, f.example)
		}
		return n, nil
	}
	if at := strings.Index(f.names, text); len(text) == 3 && at >= 0 && at%3 == 0 {
		return f.low + at/3, nil
	}
	switch {
	case text == "?":
		return 0, errors.New("? is not known here; write *")
	case strings.Contains(text, "#") || strings.HasSuffix(text, "w") || strings.HasSuffix(text, "l") && text != "april":
		return 0, fmt.Errorf("%q: L, W and # are not known here; write numbers, or let the job look at the date", text)
	case len(text) > 3 && f.names != "" && strings.Contains(f.names, text[:3]):
		return 0, fmt.Errorf("%q is not known; write %s", text, text[:3])
	}
	return 0, fmt.Errorf("%q is not a number or a name of it; write %s", text, f.example)
}

// digits parses a number of one to four digits without a sign.
func digits(text string) (int, bool) {
	if len(text) < 1 || len(text) > 4 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// String returns the five fields in a canonical form, from which Cron makes the same rule
// again; for Every it returns "every 5m0s".
func (r *Rule) String() string {
	if r.period > 0 {
		return "every " + r.period.String()
	}
	sets := [5]uint64{r.minutes, uint64(r.hours), uint64(r.days), uint64(r.months), uint64(r.weekdays)}
	var text []byte
	for i, f := range fields() {
		if i > 0 {
			text = append(text, ' ')
		}
		text = f.append(text, sets[i], r.stars>>i&1 != 0)
	}
	return string(text)
}

// append appends the numbers of a field.
func (f field) append(text []byte, set uint64, star bool) []byte {
	begin := len(text)
	if star {
		step := 1
		for every := f.every(step); set&every != every && step < f.high-f.low; every = f.every(step) {
			step++
		}
		set &^= f.every(step)
		text = append(text, '*')
		if step > 1 {
			text = strconv.AppendInt(append(text, '/'), int64(step), 10)
		}
	}
	for set != 0 {
		low := bits.TrailingZeros64(set)
		run := bits.TrailingZeros64(^(set >> low))
		if run < 3 {
			run = 1
		}
		set &^= (1<<run - 1) << low
		if len(text) > begin {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(low), 10)
		if run > 1 {
			text = strconv.AppendInt(append(text, '-'), int64(low+run-1), 10)
		}
	}
	return text
}

// every returns the numbers of * with a step.
func (f field) every(step int) uint64 {
	set := uint64(0)
	for n := f.low; n <= f.high; n += step {
		set |= 1 << n
	}
	return set
}
