package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// noon is when the tables of these tests are drawn.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{ageText(-time.Second), "0s"}, {ageText(0), "0s"}, {ageText(10 * time.Nanosecond), "<1µs"}, {ageText(1500 * time.Nanosecond), "1µs"},
		{ageText(850 * time.Millisecond), "850ms"}, {ageText(9990 * time.Millisecond), "9.9s"}, {ageText(12 * time.Second), "12s"},
		{ageText(119 * time.Second), "119s"}, {ageText(3 * time.Minute), "3m"}, {ageText(5 * time.Hour), "5h"}, {ageText(50 * time.Hour), "2d"},
		{sinceText(time.Time{}, noon), ""}, {sinceText(noon, noon), "now"}, {sinceText(noon.Add(-3700*time.Millisecond), noon), "3s"},
		{sinceText(noon.Add(time.Hour-time.Millisecond), noon), "in 60m"}, {sinceText(noon.Add(-72*time.Hour), noon), "3d"},
		{sizeText(0), "0B"}, {sizeText(1023), "1023B"}, {sizeText(1024), "1KiB"}, {sizeText(1536), "1.5KiB"}, {sizeText(12 << 20), "12MiB"},
		{sizeText(1<<20 - 1), "1.0MiB"}, {sizeText(1 << 62), "4EiB"},
		{countText(9999), "9999"}, {countText(12345), "12k"}, {countText(999_499), "999k"}, {countText(999_500), "1.0M"}, {countText(uint64(3_400_000_000)), "3.4G"},
		{plural(1, "job"), "1 job"}, {plural(0, "job"), "0 jobs"},
		{shorten("short", 5), "short"}, {shorten("shorter", 5), "shor…"}, {shorten("日本語", 5), "日本…"}, {shorten("abc", 0), "…"},
		{counts(map[string]uint64{"failed": 3, "ok": 12, "crashed": 3, "lost": 0}), "12 ok, 3 crashed, 3 failed"},
		{withoutLine("line 12: not this: at all"), "not this: at all"}, {withoutLine("line x: y"), "line x: y"}, {withoutLine("a: line 1: b"), "a: line 1: b"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	words := []string{"thumbnails", "reports", "mails"}
	for word, want := range map[string]string{
		"thumbnail": "thumbnails", "thumb": "thumbnails", "report": "reports", "MAILS": "mails", "mials": "mails", "x": "", "orders": "", "": "",
	} {
		if got := nearest(word, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestMoment(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("there", 2*60*60)
	now := time.Date(2026, 11, 21, 14, 30, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"2027-01-01T03:00Z":         time.Date(2027, 1, 1, 3, 0, 0, 0, time.UTC),
		"2027-01-01T03:00:05Z":      time.Date(2027, 1, 1, 3, 0, 5, 0, time.UTC),
		"2027-01-01T03:00:00+05:00": time.Date(2026, 12, 31, 22, 0, 0, 0, time.UTC),
		"2027-01-01 03:00":          time.Date(2027, 1, 1, 3, 0, 0, 0, zone),
		"2027-01-01":                time.Date(2027, 1, 1, 0, 0, 0, 0, zone),
		"15:00":                     time.Date(2026, 11, 21, 15, 0, 0, 0, zone),
		"14:00":                     time.Date(2026, 11, 22, 14, 0, 0, 0, zone),
		"90s":                       now.Add(90 * time.Second),
	} {
		got, err := moment(now)(text)
		if err != nil || !got.Equal(want) {
			t.Errorf("moment(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "-5s", "25:00", "2027-13-01", "0s"} {
		if got, err := moment(now)(text); err == nil {
			t.Errorf("moment(%q) = %v, want an error", text, got)
		}
	}
}

func TestPast(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("there", 2*60*60)
	now := time.Date(2026, 11, 21, 14, 30, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"2025-01-01T03:00Z": time.Date(2025, 1, 1, 3, 0, 0, 0, time.UTC),
		"2027-01-01":        time.Date(2027, 1, 1, 0, 0, 0, 0, zone),
		"15:00":             time.Date(2026, 11, 20, 15, 0, 0, 0, zone),
		"14:00":             time.Date(2026, 11, 21, 14, 0, 0, 0, zone),
		"14:00:05":          time.Date(2026, 11, 21, 14, 0, 5, 0, zone),
		"90s":               now.Add(-90 * time.Second),
		"24h":               now.Add(-24 * time.Hour),
	} {
		got, err := past(now)(text)
		if err != nil || !got.Equal(want) {
			t.Errorf("past(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "yesterday", "-5s", "25:00", "0s"} {
		if got, err := past(now)(text); err == nil {
			t.Errorf("past(%q) = %v, want an error", text, got)
		}
	}
}

func FuzzPlain(f *testing.F) {
	for _, s := range []string{"", "text", "a\x1b[31mb", "\u009b2J", "a\u202eb", "tab\tline\n", "\xff\xfe", "日本語"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := plain(s)
		if strings.ContainsFunc(got, func(c rune) bool { return unicode.IsControl(c) || c == '\u202e' || c == '\u2066' }) {
			t.Errorf("plain(%q) = %q has what plays with a terminal", s, got)
		}
		if plain(got) != got {
			t.Errorf("plain(%q) = %q is not plain", s, got)
		}
		for n := range 8 {
			if cut := shorten(got, n); columnsOf(cut) > max(n, 1) {
				t.Errorf("shorten(%q, %d) = %q takes %d columns", got, n, cut, columnsOf(cut))
			}
		}
	})
}

func FuzzDecodeJob(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `null`, `{"payload":"x","task":"t","key":"k","priority":"high","delay":5,"at":"2027-01-01T03:00Z","deadline":"1h"}`,
		`{"payload_base64":"AAEC","timeout":"1m","memory":"512MiB","cpu":0.5,"output":1024,"attempts":3,"crashes":1,"idempotent":true}`,
		`{"payload":{"a":[1,2]},"meta":{"k":"v"},"backoff":"1s","max_backoff":"5m","compensate":"undo"}`, `{"payload":1,"payload_base64":"!"}`, `{"attempts":-1}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		base := job.Job{Name: "base", Meta: map[string]string{"a": "b"}}
		j, err := decodeJob([]byte(s), base, noon)
		if len(base.Meta) != 1 {
			t.Fatalf("the defaults were changed: %v", base.Meta)
		}
		if err == nil && !json.Valid([]byte(s)) {
			t.Errorf("%q was taken as %+v", s, j)
		}
		if err == nil && (j.Retry.Attempts < 0 || j.Delay < 0 || j.Limits.Memory < 0) {
			t.Errorf("%q became %+v", s, j)
		}
	})
}

func TestDecodeJob(t *testing.T) {
	t.Parallel()
	base := job.Job{Name: "base", Key: "", Meta: map[string]string{"a": "b"}, Retry: job.Retry{Attempts: 7}}
	got, err := decodeJob([]byte(`{"payload":{"n": 1},"timeout":1.5,"memory":"1KiB","output":"2KiB","meta":{"c":"d"},"at":"2027-01-01T03:00Z","priority":"low","idempotent":true}`), base, noon)
	want := job.Job{Name: "base", Payload: []byte(`{"n": 1}`), Meta: map[string]string{"a": "b", "c": "d"}, Priority: job.Low, Idempotent: true, Limits: bullpen.Limits{Timeout: 1500 * time.Millisecond, Memory: 1 << 10, Output: 2 << 10}, At: time.Date(2027, 1, 1, 3, 0, 0, 0, time.UTC), Retry: job.Retry{Attempts: 7}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	_, err = decodeJob([]byte(`{"payload":"a","payload_base64":"YQ==","timout":3,"key":5,"idempotent":"yes","payload2":1}`), base, noon)
	for _, part := range []string{`unknown field "timout"; did you mean "timeout"?`, "key: use a string", "idempotent: use true or false", "payload and payload_base64", `"payload2"; did you mean "payload"`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// TestTable holds a table against what it must look like, wide, narrow and with
// text that plays with terminals.
func TestTable(t *testing.T) {
	t.Parallel()
	jobs := []job.Info{
		{ID: "01A", Queue: "thumbnails", Name: "shrink", State: job.Done, Priority: job.Normal, Enqueued: noon.Add(-3 * time.Minute), Attempts: 1, Stats: bullpen.Stats{Ran: 12 * time.Millisecond}},
		{
			ID: "01B", Queue: "evil\x1b[2J", Name: "日本", State: job.Dead, Reason: job.Quarantined, Priority: job.High, Enqueued: noon.Add(-50 * time.Hour), Attempts: 12,
			Outcome: bullpen.Crashed, Err: &job.EndError{Outcome: bullpen.Crashed, Message: `signal: killed`},
		},
		{ID: "01C", Queue: "mails", State: job.Running, Priority: job.Normal, Enqueued: noon, Attempts: 1, Progress: 0.25, Note: "page 3\nof 12"},
		{ID: "01D", Queue: "mails", State: job.Scheduled, Priority: job.Normal, Enqueued: noon, At: noon.Add(time.Hour)},
	}
	const want = `ID   POOL        TASK    STATE      PRIORITY  AGE  TRIES   RAN  NOTE
01A  thumbnails  shrink  done                  3m      1  12ms
01B  evil[2J     日本    dead       high       2d     12        quarantined: crashed: signal: killed
01C  mails               running              now      1        25% page 3 of 12
01D  mails               scheduled            now               in 60m
`
	if diff := cmp.Diff(want, jobTable(jobs, noon).draw(style{})); diff != "" {
		t.Error(diff)
	}
	const narrow = `ID   POOL        TASK    STATE      PRIO…
01A  thumbnails  shrink  done
01B  evil[2J     日本    dead       high
01C  mails               running
01D  mails               scheduled
`
	if diff := cmp.Diff(narrow, jobTable(jobs, noon).draw(style{width: 41})); diff != "" {
		t.Error(diff)
	}
	coloured := jobTable(jobs, noon).draw(style{colours: true})
	for _, code := range toneCodes[1:] {
		coloured = strings.ReplaceAll(coloured, code, "")
	}
	if diff := cmp.Diff(want, strings.ReplaceAll(coloured, toneEnd, "")); diff != "" {
		t.Errorf("colours move columns:\n%s", diff)
	}
}

// topSample is what a daemon with one busy pool said at a time.
func topSample(at time.Time, ok uint64) *sample {
	s := &sample{at: at, status: client.Status{Node: "n1", Ready: true, Live: true, Uptime: time.Hour}}
	for _, name := range []string{"mails", "reports", "thumbnails"} {
		s.pools = append(s.pools, client.Pool{
			Name: name, State: "open", Max: 4, Workers: client.PoolWorkers{Busy: 2, Idle: 1}, WaitP50: time.Millisecond, WaitP99: time.Second,
			RunP50: 2 * time.Millisecond, RunP99: 20 * time.Millisecond, Outcomes: map[string]uint64{"ok": ok, "failed": 2}, Deaths: map[string]uint64{"signal": 1},
			Jobs: []client.PoolDepth{{Priority: job.High, Waiting: 10, Taken: 2, Oldest: noon.Add(-time.Minute)}, {Priority: job.Low, Waiting: 5, Oldest: noon.Add(-time.Hour)}},
		})
	}
	s.pools[1].State, s.pools[1].Workers, s.pools[1].Max, s.pools[1].Outcomes = "queue-only", client.PoolWorkers{}, 0, nil
	s.pools[1].WaitP50, s.pools[1].WaitP99, s.pools[1].RunP50, s.pools[1].RunP99 = 0, 0, 0, 0
	s.pools[2].Error, s.pools[2].Workers = "exit status 1", client.PoolWorkers{}
	return s
}

func TestTopView(t *testing.T) {
	t.Parallel()
	v := topView{address: "http://127.0.0.1:8650"}
	v.take(topSample(noon.Add(-2*time.Second), 1000), "")
	v.take(topSample(noon, 3000), "")
	const want = `bullpen top  http://127.0.0.1:8650  n1  ready  up 60m                                                         12:00:00
45 jobs waiting, 6 running; 2 of 3 workers busy; 2000 tasks/s

POOL        STATE       BUSY/UP/MAX  WAITING  RUNNING  OLDEST  OK/S  BAD/S  DEATHS  WAIT99  RUN99  NOTE
mails       open              2/3/4       15        2     60m  1000      0       1    1.0s   20ms
reports     queue-only                    15        2     60m
thumbnails  failing           0/0/4       15        2     60m  1000      0       1    1.0s   20ms  exit status 1
`
	if diff := cmp.Diff(want, v.draw(style{width: 118}, 20, noon)); diff != "" {
		t.Error(diff)
	}
	// A small terminal, and a daemon that has gone: what was seen last stays.
	v.take(&sample{at: noon, err: client.ErrUnreachable}, "no daemon answers (retrying)")
	const small = `bullpen top  http://127.0.0.1:8650  n1  re…
no daemon answers (retrying)
45 jobs waiting, 6 running; 2 of 3 workers…

POOL        STATE       BUSY/UP/MAX  WAITI…
… 3 pools more; see: bullpen pool ls
`
	if diff := cmp.Diff(small, v.draw(style{width: 43}, 6, noon)); diff != "" {
		t.Error(diff)
	}
	// A daemon that was started anew counts from zero: no rate is made of that.
	v.take(topSample(noon.Add(time.Second), 5), "")
	if _, _, known := v.rates(&v.last.pools[0]); known {
		t.Error("a rate was made of counts of two lives")
	}
	for width := range 130 {
		for rows := 1; rows < 12; rows++ {
			lines := strings.Split(strings.TrimSuffix(v.draw(style{width: width}, rows, noon), "\n"), "\n")
			if len(lines) > rows {
				t.Fatalf("%d lines at %d rows", len(lines), rows)
			}
			if i := slices.IndexFunc(lines, func(l string) bool { return width > 0 && columnsOf(l) > width }); i >= 0 {
				t.Fatalf("line %q is longer than %d", lines[i], width)
			}
		}
	}
}

func TestWithResult(t *testing.T) {
	t.Parallel()
	for result, want := range map[string]string{
		"x\"":  `{"id":"a","state":"done","attempts":0,"outcome":"ok","result":"x\""}`,
		"":     `{"id":"a","state":"done","attempts":0,"outcome":"ok","result":""}`,
		"\xff": `{"id":"a","state":"done","attempts":0,"outcome":"ok","result_base64":"/w=="}`,
	} {
		got, err := withResult(&job.Info{ID: "a", State: job.Done}, []byte(result)).MarshalJSON()
		if err != nil || string(got) != want {
			t.Errorf("withResult(%q) = %s, %v; want %s", result, got, err, want)
		}
	}
}
