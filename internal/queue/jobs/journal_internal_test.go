package jobs

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen/job"
)

// listening is a queue that is nothing but its journal.
func listening(l slog.Handler) *Jobs {
	q := &Jobs{}
	if l == nil {
		q.Journal.open(nil)
		return q
	}
	q.Journal.open(slog.New(l))
	return q
}

func TestFeeds(t *testing.T) {
	t.Parallel()
	q := listening(nil)
	q.Journal.Emit(job.Event{Kind: job.Paused}) // nobody hears it
	narrow, wide, closed := q.Events(2), q.Events(0), q.Events(5)
	before := time.Now()
	for _, k := range []job.EventKind{job.Retried, job.Buried, job.TookBack} {
		q.Journal.Emit(job.Event{Kind: k})
	}
	closed.Close()
	closed.Close()
	q.Journal.Emit(job.Event{Kind: job.Full})
	if e := <-wide.C; e.Kind != job.Retried || e.Time.Before(before) || time.Now().Before(e.Time) {
		t.Errorf("the first event is %+v", e)
	}
	q.Journal.close()
	q.Journal.close()
	q.Journal.Emit(job.Event{Kind: job.Resumed})
	wide.Close()
	late := q.Events(1)
	for _, c := range []struct {
		name    string
		feed    *Feed
		want    []job.EventKind
		dropped uint64
	}{
		{"narrow", narrow, []job.EventKind{job.Retried, job.Buried}, 2},
		{"wide", wide, []job.EventKind{job.Buried, job.TookBack, job.Full}, 0},
		{"closed", closed, []job.EventKind{job.Retried, job.Buried, job.TookBack}, 0},
		{"late", late, nil, 0},
	} {
		if got := kindsOf(c.feed); !slices.Equal(got, c.want) || c.feed.Dropped() != c.dropped {
			t.Errorf("%s: %v and %d dropped, want %v and %d", c.name, got, c.feed.Dropped(), c.want, c.dropped)
		}
	}
	late.Close()
}

func TestJournalLogs(t *testing.T) {
	t.Parallel()
	l := &logged{}
	q := listening(l)
	q.Journal.Emit(job.Event{Kind: job.Buried, Queue: "q", Task: "a", Job: "id", Attempt: 3, Count: 4, Text: "why"})
	q.Journal.Emit(job.Event{Kind: job.Damaged})
	q.Journal.close() // when it returns all is written
	for key, want := range map[string]string{"queue": "q", "task": "a", "job": "id", "attempt": "3", "count": "4", "text": "why"} {
		if got := l.of("queue: "+job.Buried.String(), key); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is logged as %q, want %q", key, got, want)
		}
	}
	if len(l.records) != 2 || l.records[0].Level != slog.LevelWarn || l.records[1].Level != slog.LevelError || l.records[1].NumAttrs() != 0 {
		t.Errorf("%d lines are logged: %+v", len(l.records), l.records)
	}
	if got, want := (job.Event{Kind: job.Buried, Queue: "q", Task: "a", Job: "id", Attempt: 3, Count: 4, Text: "why"}).String(), `job id dead queue "q" task "a" attempt 3 4: why`; got != want {
		t.Errorf("the event says %q, want %q", got, want)
	}
}

// stuck is a logger that hangs until it is let go.
type stuck struct {
	logged

	free chan struct{}
}

func (s *stuck) Handle(context.Context, slog.Record) error { <-s.free; return nil }

// TestASlowLoggerSlowsNobody has a logger that hangs: lines are lost and counted,
// and the closing waits for a second only.
func TestASlowLoggerSlowsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &stuck{free: make(chan struct{})}
		q := listening(l)
		for range logDepth + 500 {
			q.Journal.Emit(job.Event{Kind: job.Retried})
		}
		if lost := q.Journal.Lost.Load(); lost < 499 || lost > 500 {
			t.Errorf("%d lines are lost, want those beyond %d", lost, logDepth)
		}
		start := time.Now()
		q.Journal.close()
		if took := time.Since(start); took != logPatience {
			t.Errorf("the closing took %v, want %v", took, logPatience)
		}
		close(l.free)
	})
}

// TestJournalHammer has events told, feeds opened and closed, and the journal
// closed, all at the same time.
func TestJournalHammer(t *testing.T) {
	t.Parallel()
	for range 50 {
		q := listening(&logged{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					q.Journal.Emit(job.Event{Kind: job.Retried})
				}
			})
			wg.Go(func() {
				for range 20 {
					f := q.Events(1)
					select {
					case <-f.C:
					default:
					}
					f.Close()
				}
			})
		}
		wg.Go(q.Journal.close)
		wg.Wait()
		if f := q.Events(1); kindsOf(f) != nil {
			t.Fatal("a feed of a closed journal says something")
		}
	}
}
