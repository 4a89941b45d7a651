package jobs

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

func TestJournal(t *testing.T) {
	t.Parallel()
	l, q := &logged{}, &Jobs{}
	q.Journal.open(slog.New(l))
	feed, before := q.Events(0), time.Now()
	q.Journal.Emit(job.Event{Kind: job.Buried, Queue: "q", Task: "a", Job: "id", Attempt: 3, Count: 4, Text: "why"})
	q.Journal.Emit(job.Event{Kind: job.Damaged})
	q.Journal.close() // when it returns all is written
	if e := <-feed.C; e.Kind != job.Buried || e.Time.Before(before) || time.Now().Before(e.Time) {
		t.Errorf("the first event is %+v", e)
	}
	for key, want := range map[string]string{"queue": "q", "task": "a", "job": "id", "attempt": "3", "count": "4", "text": "why"} {
		if got := l.of("queue: "+job.Buried.String(), key); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is logged as %q, want %q", key, got, want)
		}
	}
	if len(l.records) != 2 || l.records[0].Level != slog.LevelWarn || l.records[1].Level != slog.LevelError || l.records[1].NumAttrs() != 0 || q.Journal.Lost() != 0 {
		t.Errorf("%d lines are logged: %+v", len(l.records), l.records)
	}
	if got, want := (job.Event{Kind: job.Buried, Queue: "q", Task: "a", Job: "id", Attempt: 3, Count: 4, Text: "why"}).String(), `job id dead queue "q" task "a" attempt 3 4: why`; got != want {
		t.Errorf("the event says %q, want %q", got, want)
	}
}
