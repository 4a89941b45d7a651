package api

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen"
	"github.com/bullpen-run/bullpen/internal/daemon/live"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	"github.com/bullpen-run/bullpen/job"
)

// event is one server-sent event; of a comment only data is there.
type event struct{ id, kind, data string }

type eventList []event

func (l eventList) String() string {
	var b strings.Builder
	for _, e := range l {
		b.WriteString(e.id + " " + e.kind + " " + e.data + "\n")
	}
	return b.String()
}

// of returns the events of a kind.
func (l eventList) of(kind string) (some eventList) {
	for _, e := range l {
		if e.kind == kind {
			some = append(some, e)
		}
	}
	return some
}

// eventReader reads events as browsers do.
type eventReader struct {
	t     testing.TB
	lines *bufio.Scanner
}

func newEventReader(t testing.TB, r io.Reader) *eventReader {
	t.Helper()
	return &eventReader{t, bufio.NewScanner(r)}
}

// next returns the next event, or comment.
func (r *eventReader) next() (e event, more bool) {
	r.t.Helper()
	for r.lines.Scan() {
		name, value, _ := strings.Cut(r.lines.Text(), ": ")
		switch name {
		case "":
			if r.lines.Text() != "" {
				e.data = value
				continue
			}
			if e != (event{}) {
				return e, true
			}
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = value
		default:
			r.t.Errorf("a stream of events has the line %q", r.lines.Text())
		}
	}
	return e, false
}

func readEvents(t testing.TB, r io.Reader) (all eventList) {
	t.Helper()
	reader := newEventReader(t, r)
	for {
		e, more := reader.next()
		if !more {
			return all
		}
		all = append(all, e)
	}
}

// follow reads all events of a job.
func (s *site) follow(id, after string) eventList {
	s.t.Helper()
	resp := s.open(s.t.Context(), "GET", "/v1/jobs/"+id+"/events", http.NoBody, "Last-Event-ID", after)
	defer resp.Body.Close() // it is read
	return readEvents(s.t, resp.Body)
}

// submit hands in a job and returns its id.
func (s *site) submit(query, body string) string {
	s.t.Helper()
	r := s.do("POST", "/v1/pools/main/jobs?"+query, body)
	if r.status != http.StatusAccepted {
		s.t.Fatalf("submitting answers %d %s", r.status, r.body)
	}
	return decode[Ref](s.t, r).ID
}

func TestEventsAsTheyHappen(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.submit("task=hold", "")
	resp := s.open(t.Context(), "GET", "/v1/jobs/"+id+"/events", http.NoBody)
	defer resp.Body.Close() // it is read
	r := newEventReader(t, resp.Body)
	var seen eventList
	for len(seen.of("log")) == 0 {
		e, more := r.next()
		if !more {
			t.Fatalf("the stream ends after\n%s", seen)
		}
		seen = append(seen, e)
	}
	close(s.daemon.release)
	for {
		e, more := r.next()
		if !more {
			break
		}
		seen = append(seen, e)
	}
	last := seen[len(seen)-1]
	if last.kind != "end" || !strings.Contains(last.data, `"state":"done"`) || !strings.Contains(last.data, `"outcome":"ok"`) {
		t.Errorf("the end is %+v", last)
	}
	states := seen.of("state").String()
	if !strings.Contains(states, `{"state":"running","attempt":1}`) || len(seen.of("log")) != 1 || len(seen.of("end")) != 1 {
		t.Errorf("seen was\n%s", seen)
	}
	for _, e := range seen {
		if _, err := live.ParsePosition(e.id); err != nil && e.kind != "" {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if resp.Header.Get("X-Accel-Buffering") != "no" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers are %v", resp.Header)
	}
}

// TestEventsGoOn has a reader that comes again after each event, while the job
// runs here, and after the end where only the last lines are kept.
func TestEventsGoOn(t *testing.T) {
	t.Parallel()
	for _, here := range []bool{true, false} {
		s := newSite(t)
		id := s.submit("task=talk", "me")
		if r := s.do("GET", "/v1/jobs/"+id+"?wait=20s", ""); decode[Job](t, r).State != "done" {
			t.Fatalf("the job is %s", r.body)
		}
		s.daemon.mu.Lock()
		s.daemon.following = here
		s.daemon.mu.Unlock()
		all := s.follow(id, "")
		if n := len(all.of("log")); n != 3 || len(all.of("progress")) != 1 || len(all.of("end")) != 1 || len(all.of("")) != 0 {
			t.Fatalf("here %v: seen was\n%s", here, all)
		}
		lines := all.of("log")
		for n, e := range lines {
			rest := s.follow(id, e.id)
			if got := rest.of("log"); got.String() != lines[n+1:].String() || len(rest.of("end")) != 1 || len(rest.of("")) != 0 {
				t.Errorf("here %v: after line %d of\n%s\nthere were\n%s", here, n, all, rest)
			}
		}
		s.daemon.mu.Lock()
		s.daemon.following = !here // another place goes on where the first was left
		s.daemon.mu.Unlock()
		if rest := s.follow(id, lines[1].id); rest.of("log").String() != lines[2:].String() {
			t.Errorf("here %v: elsewhere there were\n%s after %s of\n%s", here, rest, lines[1].id, all)
		}
		if r := s.do("GET", "/v1/jobs/"+id+"/events?after="+all[len(all)-1].id, ""); r.status != http.StatusNoContent {
			t.Errorf("after the end: %d %q", r.status, r.body)
		}
	}
}

func TestEventsOfManyAttempts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.submit("task=again&attempts=3&backoff=150ms&delay=100ms", "")
	all := s.follow(id, "")
	var states []string
	for _, e := range all.of("state") {
		states = append(states, e.data)
	}
	if len(states) == 0 || states[0] != `{"state":"scheduled","attempt":0}` || !strings.Contains(strings.Join(states, " "), `"retrying"`) {
		t.Errorf("the states were %v", states)
	}
	if last := all[len(all)-1]; last.kind != "end" || !strings.Contains(last.data, `"reason":"exhausted"`) || last.id != "4.0" {
		t.Errorf("the end was %+v", last)
	}
}

func TestEventsOfAJobThatIsCanceled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.submit("delay=1h", "")
	done := make(chan eventList)
	go func() { // ends with the stream; it is waited for below
		done <- s.follow(id, "")
	}()
	if r := s.do("POST", "/v1/jobs/"+id+"/cancel", ""); r.status != http.StatusOK {
		t.Fatalf("canceling answers %d %s", r.status, r.body)
	}
	all := <-done
	if last := all[len(all)-1]; last.kind != "end" || !strings.Contains(last.data, `"canceled"`) {
		t.Errorf("the end was %+v", last)
	}
}

func TestEventsWhenTheDaemonStops(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *Config) { c.KeepAlive = 5 * time.Millisecond })
	id := s.submit("delay=1h", "")
	resp := s.open(t.Context(), "GET", "/v1/jobs/"+id+"/events", http.NoBody)
	defer resp.Body.Close() // it is read
	r := newEventReader(t, resp.Body)
	for e, more := r.next(); e.data != "still there"; e, more = r.next() {
		if !more {
			t.Fatal("the stream ended")
		}
	}
	s.daemon.end()
	var last event
	for e, more := r.next(); more; e, more = r.next() {
		last = e
	}
	if !strings.Contains(last.data, "the daemon is stopping") {
		t.Errorf("the last was %+v", last)
	}
}

func TestEventsAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.submit("delay=1h", "")
	isProblem(t, s.do("GET", "/v1/jobs/"+id+"/events?after=x", ""), problem.BadRequest)
	isProblem(t, s.do("GET", "/v1/jobs/"+id+"/events", "", "Last-Event-ID", "1"), problem.BadRequest)
	isProblem(t, s.do("GET", "/v1/jobs/01ARZ3NDEKTSV4RRFFQ69G5FAV/events", ""), problem.NotFound)
}

// TestReaderWhoGoes has a reader of events go, and one that reads nothing.
func TestReaderWhoGoes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.submit("task=hold", "")
	ctx, cancel := context.WithCancel(t.Context())
	resp := s.open(ctx, "GET", "/v1/jobs/"+id+"/events", http.NoBody)
	cancel()
	resp.Body.Close() // nothing is expected of it
	close(s.daemon.release)
	s.http.Close() // waits for the handler
}

// slowWriter is a reader that takes nothing until its time is over.
type slowWriter struct {
	http.ResponseWriter
	limited bool
}

func (w *slowWriter) SetWriteDeadline(t time.Time) error {
	w.limited = w.limited || time.Until(t) < time.Minute
	return nil
}

func (w *slowWriter) Write([]byte) (int, error) {
	if w.limited {
		return 0, context.DeadlineExceeded
	}
	return 0, nil
}

func (w *slowWriter) Flush() {}

func TestReaderWhoDoesNotRead(t *testing.T) {
	t.Parallel()
	a, _ := newAPI(t)
	w := &slowWriter{ResponseWriter: recorder()}
	s := a.stream(w, eventsType)
	s.comment("x")
	if err := s.flush(); err == nil || !w.limited {
		t.Errorf("the write has the limit %v and ends with %v", w.limited, err)
	}
}

// TestGapsAreSaid has events that are no longer kept.
func TestGapsAreSaid(t *testing.T) {
	t.Parallel()
	a, _ := newAPI(t)
	base := time.Unix(1e9, 0)
	line := func(n int) bullpen.LogLine {
		return bullpen.LogLine{Time: base.Add(time.Duration(n) * time.Microsecond), Text: "x"}
	}
	for _, c := range []struct {
		name  string
		after live.Position
		lines []bullpen.LogLine
		gap   bool
		logs  int
	}{
		{"all", live.Position{}, []bullpen.LogLine{line(1), line(2)}, false, 2},
		{"behind what is kept", positionAt(1, line(0).Time), []bullpen.LogLine{line(1), line(2)}, true, 2},
		{"within it", positionAt(1, line(1).Time), []bullpen.LogLine{line(1), line(2)}, false, 1},
		{"of the same microsecond", positionAt(1, line(1).Time), []bullpen.LogLine{line(1), line(1), line(1)}, false, 2},
		{"all seen", positionAt(1, line(2).Time), []bullpen.LogLine{line(1), line(2)}, false, 0},
		{"of the attempt before", positionAt(0, line(2).Time), []bullpen.LogLine{line(1), line(2), line(3)}, false, 1},
	} {
		w := recorder()
		f := &follower{api: a, last: c.after, stream: a.stream(w, eventsType)}
		f.sendLines(1, c.lines)
		if err := f.stream.flush(); err != nil {
			t.Fatal(err)
		}
		all := readEvents(t, w.Body)
		if gap := len(all.of("")) > 0; gap != c.gap || len(all.of("log")) != c.logs {
			t.Errorf("%s: sent was\n%s", c.name, all)
		}
	}
}

// TestPositionsAreInOrder has several events of one microsecond, and some without a
// time.
func TestPositionsAreInOrder(t *testing.T) {
	t.Parallel()
	c := &counter{}
	now := time.Now()
	last := live.Position{}
	for n := range 100 {
		at := now.Add(time.Duration(n/10) * time.Microsecond)
		if n%3 == 0 {
			at = time.Time{}
		}
		p := c.position(1+n/50, at)
		if !p.After(last) {
			t.Fatalf("%v comes after %v", p, last)
		}
		last = p
	}
	for _, attempts := range []int{0, 1, 2} {
		if end := endOf(&job.Info{Attempts: attempts}, last); !end.After(last) || !isEnd(end) || isEnd(last) {
			t.Errorf("of %d attempts %v is before %v", attempts, end, last)
		}
	}
	if isEnd(live.Position{}) {
		t.Error("the beginning is an end")
	}
}
