package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bullpen-run/bullpen/client"
	"github.com/bullpen-run/bullpen/job"
)

// story is what a job tells, an event a line: id, kind, data.
var story = []string{
	`1.1 state {"state":"running","attempt":1}`,
	`1.2 progress {"fraction":0.5,"note":"half"}`,
	`1.3 log {"time":"2026-11-21T13:00:00Z","level":4,"stream":"stderr","text":"one"}`,
	`1.4 log {"text":"two"}`,
	`1.5 of-the-future {}`,
	`2.1 state {"state":"running","attempt":2}`,
	`2.2 log {"text":"three"}`,
	`3.0 end {"id":"01J","state":"done"}`,
}

func writeEvents(w io.Writer, events []string) {
	for _, e := range events {
		part := strings.SplitN(e, " ", 3)
		fmt.Fprintf(w, "id: %s\r\nevent: %s\r\ndata: %s\r\n\r\n", part[0], part[1], part[2])
	}
}

// tell gives an event on one line.
func tell(e client.Event) string {
	switch e.Kind {
	case client.StateChanged:
		return fmt.Sprintf("%s %s %d", e.ID, e.State, e.Attempt)
	case client.Progressed:
		return fmt.Sprintf("%s %g %s", e.ID, e.Fraction, e.Note)
	case client.Logged:
		return fmt.Sprintf("%s %s", e.ID, e.Line.Text)
	case client.Ended:
		return fmt.Sprintf("%s end %s", e.ID, e.Job.State)
	case client.Missed:
		return e.Text
	}
	return "?"
}

var wantStory = []string{"1.1 running 1", "1.2 0.5 half", "1.3 one", "1.4 two", "2.1 running 2", "2.2 three", "3.0 end done"}

// TestFollow reads the story over connections that break after each event, from a
// daemon that sends its last events again.
func TestFollow(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]int{"goes on behind": 0, "tells the last again": 1, "tells three again": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lasts []string
			bubble(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
				last := r.Header.Get("Last-Event-ID")
				lasts = append(lasts, last)
				next := 0
				for i, e := range story {
					if strings.HasPrefix(e, last+" ") {
						next = i + 1
					}
				}
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				fmt.Fprint(w, ": hello\n\n")
				writeEvents(w, story[max(0, next-again):min(next+2, len(story))])
				if next < len(story)-2 {
					_ = http.NewResponseController(w).Flush()
					hijack(w)
				}
			}, func(t *testing.T, c *client.Client) {
				t.Helper()
				var got []string
				for e, err := range c.Follow(t.Context(), "01J", "") {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, tell(e))
				}
				if d := cmp.Diff(wantStory, got); d != "" {
					t.Errorf("the story differs (-want +got):\n%s\nconnections began behind %q", d, lasts)
				}
			})
		})
	}
}

func TestFollowFrom(t *testing.T) {
	t.Parallel()
	c := scripted(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Last-Event-Id") {
		case "3.0":
			w.WriteHeader(http.StatusNoContent)
		case "2.1":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": gap: 3 events are missing\n\n: still there\n\n")
			writeEvents(w, story[6:])
		}
	})
	var got []string
	for e, err := range c.Follow(t.Context(), "01J", "2.1") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, tell(e))
	}
	if d := cmp.Diff([]string{"gap: 3 events are missing", "2.2 three", "3.0 end done"}, got); d != "" {
		t.Error(d)
	}
	for e, err := range c.Follow(t.Context(), "01J", "3.0") {
		t.Errorf("behind the end there is %+v, %v", e, err)
	}
	for range c.Follow(t.Context(), "01J", "2.1") {
		break
	}
}

func TestFollowFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   error
		after  time.Duration
	}{
		"no such job": {func(w http.ResponseWriter, _ *http.Request) { answerProblem(w, 404, "not-found", "") }, job.ErrNotFound, 0},
		"no stream":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, client.ErrAnswer, 0},
		"no events": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
		}, job.ErrUnconfirmed, 0},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: log\ndata: x\n\n")
		}, client.ErrAnswer, 0},
		"an endless line": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 100 {
				fmt.Fprint(w, strings.Repeat("x", 1000))
			}
		}, client.ErrTooLarge, 0},
		"silence": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, job.ErrUnconfirmed, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, client.Config{Retries: 2, MaxResult: 5000}, c.answer, func(t *testing.T, caller *client.Client) {
				t.Helper()
				begun := time.Now()
				var last error
				for _, last = range caller.Follow(t.Context(), "01J", "") {
					continue
				}
				if !errors.Is(last, c.want) || time.Since(begun) < c.after {
					t.Errorf("Follow ends with %v after %v, want %v", last, time.Since(begun), c.want)
				}
			})
		})
	}
	c := scripted(t, client.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		writeEvents(w, story[:1])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range c.Follow(ctx, "01J", "") {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("Follow whose context ends gives %v", last)
	}
}
