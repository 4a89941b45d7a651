package schedule_test

import (
	"fmt"
	"time"

	"github.com/bullpen-run/bullpen/internal/schedule"
)

func ExampleCron() {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	rule, err := schedule.Cron("30 2 * * *", zone)
	if err != nil {
		fmt.Println(err)
		return
	}
	// In the night to 29 March 2026 there was no 02:30.
	tick := time.Date(2026, 3, 28, 0, 0, 0, 0, zone)
	for range 3 {
		tick = rule.Next(tick)
		fmt.Println(tick)
	}
	// Output:
	// 2026-03-28 02:30:00 +0100 CET
	// 2026-03-29 03:00:00 +0200 CEST
	// 2026-03-30 02:30:00 +0200 CEST
}

func ExampleCron_errors() {
	_, err := schedule.Cron("75 2 * * monday", nil)
	fmt.Println(err)
	_, err = schedule.Cron("0 0 31 2 *", nil)
	fmt.Println(err)
	// Output:
	// cron "75 2 * * monday": minute: 75 is not from 0 to 59; write 0, */15 or 0,30
	// cron "75 2 * * monday": day of week: "monday" is not known; write mon
	// cron "0 0 31 2 *": it is never due: no month of "2" has a day 31; write a day that the month has
}

func ExampleEvery() {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rule, err := schedule.Every(90*time.Minute, begin)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rule, "from", rule.Next(begin.Add(-1)))
	fmt.Println(rule.Next(begin.Add(100 * time.Minute)))
	// Output:
	// every 1h30m0s from 2026-01-01 00:00:00 +0000 UTC
	// 2026-01-01 03:00:00 +0000 UTC
}

func ExampleRule_Between() {
	rule, err := schedule.Cron("@hourly", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	end := time.Date(2026, 1, 1, 12, 30, 0, 0, time.UTC)
	for _, missed := range rule.Between(end.AddDate(-1, 0, 0), end, 2) {
		fmt.Println(missed)
	}
	// Output:
	// 2026-01-01 11:00:00 +0000 UTC
	// 2026-01-01 12:00:00 +0000 UTC
}
