package settings

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

var scheduleSamples = map[string]string{
	"pool": "reports", "cron": `"30 2 * * *"`, "every": "5m", "zone": "Europe/Berlin", "missed": "all", "overlap": "forbid", "payload": "daily", "task": "render",
	"meta": "{a: b}", "priority": "low", "timeout": "1m", "attempts": "2", "idempotent": "true", "compensate": "undo", "bury": "tell", "group": "acme",
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	const before = `
pools:
  reports: {}
schedules:
  nightly:
    pool: reports
    cron: "30 2 * * *"
    zone: Europe/Berlin
    payload: '{"kind":"daily"}'
    missed: all
    overlap: forbid
    meta: {a: b}
    timeout: 10m
  a.b: {pool: reports, every: 90s, task: sweep}
`
	folder := t.TempDir()
	s, err := load(t, folder, before)
	if err != nil {
		t.Fatal(err)
	}
	n, e := s.Schedules["nightly"], s.Schedules["a.b"]
	if len(s.Schedules) != 2 || !s.SchedulesGiven || n.Name != "nightly" || n.Cron != "30 2 * * *" || n.Zone != "Europe/Berlin" || n.Missed != job.MissedAll ||
		n.Overlap != job.OverlapForbid || string(n.Job.Payload) != `{"kind":"daily"}` || n.Job.Queue != "reports" || n.Job.Meta["a"] != "b" ||
		n.Job.Limits.Timeout != 10*time.Minute || n.Origin != OriginConfig {
		t.Errorf("nightly is %+v", n)
	}
	if e.Every != 90*time.Second || e.Job.Name != "sweep" || e.Missed != job.MissedOnce {
		t.Errorf("a.b is %+v", e)
	}
	after, err := load(t, folder, strings.NewReplacer("90s", "91s", "nightly:", "daily:").Replace(before))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := after.Diff(s), []string{"schedules.a.b.every", "schedules.daily", "schedules.nightly"}; !slices.Equal(got, want) {
		t.Errorf("the change is reported as %v, want %v", got, want)
	}
	if got := after.Restart(s); len(got) != 0 {
		t.Errorf("%v need a restart", got)
	}
	if none, err := load(t, t.TempDir(), "schedules: {}\n"); err != nil || !none.SchedulesGiven {
		t.Errorf("none are %+v, %v", none, err)
	}
}

func TestScheduleFaults(t *testing.T) {
	t.Parallel()
	for text, words := range map[string]string{
		"schedules: 3":                            "schedules: it is a single value",
		"a: {cron: '* * * * *'}":                  "schedules.a: it has no pool",
		"a: {pool: p, cron: '* * * * *'}":         "schedules.a.pool: \"p\" is not a pool of this configuration",
		"a: {pool: q}":                            "both empty",
		"a: {pool: q, cron: '0 0 31 2 *'}":        "Cron",
		"a: {pool: q, every: 1ms}":                "every",
		"a: {pool: q, cron: '@daily', every: 1m}": "both set",
		"a: {pool: q, cron: '@daily', zone: X/Y}": "X/Y",
		"a: {pool: q, kron: '@daily'}":            "did you mean \"cron\"",
		"a: {pool: q, missed: some}":              "use once, skip, all",
		"a: {pool: q, meta: [a]}":                 "use names with values",
		"A b: {pool: q, cron: '@daily'}":          "lower-case letters",
	} {
		if !strings.HasPrefix(text, "schedules") {
			text = "schedules:\n  " + text
		}
		_, err := load(t, t.TempDir(), "pools: {q: {}}\n"+text+"\n")
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s gives %v, want %q", text, err, words)
		}
	}
}
