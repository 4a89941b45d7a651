package run

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	bullpen "github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/queue/group"
	"github.com/bullpen-run/bullpen/internal/queue/jobs"
	"github.com/bullpen-run/bullpen/internal/queue/record"
	"github.com/bullpen-run/bullpen/job"
)

func observing(k job.Keep) *observed {
	c := usualConfig()
	c.Keep.Lines, c.Keep.LineBytes = cmp.Or(k.Lines, c.Keep.Lines), cmp.Or(k.LineBytes, c.Keep.LineBytes)
	return &observed{queue: &Node{Groups: group.New(&jobs.Jobs{Config: c})}}
}

// TestLinesAreBounded has the last lines kept, by number and by bytes.
func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		keep job.Keep
		text string
		most int // lines
	}{
		{"by number", job.Keep{Lines: 7, LineBytes: 1 << 20}, "some text", 7},
		{"by bytes", job.Keep{Lines: 1000, LineBytes: 100}, strings.Repeat("x", 30), 3},
		{"exactly by bytes", job.Keep{Lines: 1000, LineBytes: 90}, strings.Repeat("x", 30), 3},
		{"a line too long", job.Keep{Lines: 5, LineBytes: 10}, strings.Repeat("ä", 30), 1},
		{"empty ones", job.Keep{Lines: 5, LineBytes: 10}, "", 5},
		{"usually", job.Keep{}, "some text", usualConfig().Keep.Lines},
		{"none", job.Keep{Lines: -1}, "some text", 0},
	} {
		o := observing(c.keep)
		for n := range 200 {
			o.Log(bullpen.LogLine{Level: n, Text: c.text})
			_, _, lines := o.snapshot()
			bytes := 0
			for i, l := range lines {
				if bytes += len(l.Text); l.Level != n-len(lines)+1+i {
					t.Fatalf("%s: line %d of %d is number %d after number %d", c.name, i, len(lines), l.Level, n)
				}
				if !utf8.ValidString(l.Text) || !strings.HasPrefix(c.text, l.Text) {
					t.Fatalf("%s: %q is kept of %q", c.name, l.Text, c.text)
				}
			}
			if want := min(n+1, c.most); len(lines) != want || bytes > o.queue.Config.Keep.LineBytes || bytes != o.bytes {
				t.Fatalf("%s: after %d lines %d are kept with %d bytes (%d counted), want %d lines", c.name, n+1, len(lines), bytes, o.bytes, want)
			}
		}
	}
}

func TestSnapshotsAreApart(t *testing.T) {
	t.Parallel()
	o := observing(job.Keep{Lines: 2})
	o.Log(bullpen.LogLine{Text: "one"})
	_, _, before := o.snapshot()
	o.Log(bullpen.LogLine{Text: "two"})
	o.Log(bullpen.LogLine{Text: "three"})
	if before[0].Text != "one" {
		t.Errorf("a line of an earlier snapshot has become %q", before[0].Text)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	o := observing(job.Keep{})
	if o.takeNews() {
		t.Error("there is news before anything was said")
	}
	for reported, want := range map[float64]float64{0: 0, 0.5: 0.5, 1: 1, 7: 1, -3: 0, math.Inf(1): 1, math.Inf(-1): 0} {
		o.Progress(reported, "note")
		if got, note, _ := o.snapshot(); got != want || note != "note" {
			t.Errorf("progress %v is kept as %v with %q", reported, got, note)
		}
		if !o.takeNews() || o.takeNews() {
			t.Error("progress is no news, or news twice")
		}
	}
	o.Progress(math.NaN(), strings.Repeat("€", 1000))
	if got, note, _ := o.snapshot(); got != 0 || len(note) > record.LongestError || !utf8.ValidString(note) {
		t.Errorf("progress %v with %d bytes of a note", got, len(note))
	}
}

// TestDelivered has what a task says of its attempt.
func TestDelivered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tries record.Tries
		from  record.Job
		want  job.Delivered
	}{
		{record.Tries{}, record.Job{}, job.Delivered{Attempt: 1}},
		{record.Tries{Started: 2}, record.Job{}, job.Delivered{Attempt: 3}},
		{record.Tries{Started: 2, Crashes: 1}, record.Job{}, job.Delivered{Attempt: 3, Redelivered: true}},
		{record.Tries{Started: 1, Lost: 1}, record.Job{}, job.Delivered{Attempt: 2, Redelivered: true}},
		{record.Tries{}, record.Job{Parent: "p", Undoes: "lost", Job: job.Job{Meta: map[string]string{record.MetaTask: "do"}}}, job.Delivered{Attempt: 1, Parent: "p", Undoes: "lost", Task: "do"}},
	} {
		c.from.Job.Meta = map[string]string{"mine": "1", record.MetaTask: c.from.Job.Meta[record.MetaTask]}
		a := &attempt{stored: &c.from, tries: c.tries}
		task := a.task()
		if got := DeliveredOf(task); got != c.want || task.Meta["mine"] != "1" {
			t.Errorf("%+v: %+v, %v, want %+v", c.tries, got, task.Meta, c.want)
		}
		if len(c.from.Job.Meta) != 2 {
			t.Errorf("the job's own Meta has become %v", c.from.Job.Meta)
		}
	}
	for _, word := range []string{"", "0", "-1", "many", fmt.Sprint(uint64(math.MaxUint64))} {
		if got := DeliveredOf(bullpen.Task{Meta: map[string]string{record.MetaAttempt: word}}); got.Attempt != 1 {
			t.Errorf("attempt %q is number %d, want 1", word, got.Attempt)
		}
	}
}
