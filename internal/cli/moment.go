package cli

import (
	"fmt"
	"time"
)

// momentForms are the layouts of a time with a date; without a zone the time is
// local.
var momentForms = []string{
	time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04Z07:00",
	"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
}

// moment returns a parser for future times: a time with its date, a time of day (the
// next one), or a duration from now.
func moment(now time.Time) func(string) (time.Time, error) {
	return func(s string) (time.Time, error) {
		for _, form := range momentForms {
			if t, err := time.ParseInLocation(form, s, now.Location()); err == nil {
				return t, nil
			}
		}
		for _, form := range []string{"15:04", "15:04:05"} {
			t, err := time.ParseInLocation(form, s, now.Location())
			if err != nil {
				continue
			}
			t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if t.Before(now) {
				t = time.Date(now.Year(), now.Month(), now.Day()+1, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			}
			return t, nil
		}
		if d, err := time.ParseDuration(s); err == nil && d > 0 {
			return now.Add(d), nil
		}
		return time.Time{}, fmt.Errorf("use a time such as 2027-01-01T03:00Z, \"2027-01-01 03:00\" or 03:00 (local), or a duration from now on such as 90s or 2h")
	}
}

// past returns a parser for past times: a time with its date, a time of day (the last
// one), or a duration ago.
func past(now time.Time) func(string) (time.Time, error) {
	return func(s string) (time.Time, error) {
		if d, err := time.ParseDuration(s); err == nil && d > 0 {
			return now.Add(-d), nil
		}
		t, err := moment(now)(s)
		if err != nil {
			return t, fmt.Errorf("use a time such as 2027-01-01T03:00Z, \"2027-01-01 03:00\" or 03:00 (local), or a duration ago such as 90s or 2h")
		}
		if day := t.AddDate(0, 0, -1); len(s) <= len("15:04:05") && t.After(now) && !day.After(now) {
			return day, nil
		}
		return t, nil
	}
}
