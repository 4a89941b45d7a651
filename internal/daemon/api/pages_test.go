package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	config "github.com/bullpen-run/bullpen/internal/daemon/settings" // settings is the table of this package
	"github.com/bullpen-run/bullpen/job"
)

// later puts n jobs of later, and returns their ids.
func (h *testDaemon) later(t testing.TB, n int, j job.Job) map[string]bool {
	t.Helper()
	j.Queue, j.Name, j.At = "main", "echo", time.Now().Add(100*time.Hour)
	jobs := make([]job.Job, n)
	for i := range jobs {
		jobs[i] = j
	}
	refs, err := h.queue.EnqueueAll(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, r := range refs {
		ids[r.ID] = true
	}
	return ids
}

// TestPagesOfMuch has jobs that are much to tell: pages end early, and none is left
// out.
func TestPagesOfMuch(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	meta := map[string]string{"a": strings.Repeat("\x01", 14<<10), "b": strings.Repeat(`"`, 1<<10)}
	ids := s.daemon.later(t, 60, job.Job{Meta: meta, Payload: make([]byte, 1<<10)})
	calls := 0
	for next := "&after=0.0"; next != ""; calls++ {
		r := s.do("GET", "/v1/jobs?limit=1000"+next, "")
		page := decode[listPage](t, r)
		if len(r.body) > 1<<20+90<<10 || calls > 20 {
			t.Fatalf("page %d has %d jobs in %d bytes", calls, len(page.Jobs), len(r.body))
		}
		for _, j := range page.Jobs {
			if !ids[j.ID] {
				t.Fatalf("%s is there twice, or was never", j.ID)
			}
			delete(ids, j.ID)
		}
		if next = page.Next; next != "" {
			next = "&after=" + next
		}
	}
	if len(ids) > 0 || calls < 3 {
		t.Errorf("after %d pages %d jobs are missing", calls, len(ids))
	}
}

// counted counts what is read of a body without an end.
type counted struct {
	line string
	n    int
}

func (c *counted) Read(p []byte) (int, error) {
	n := 0
	for len(p)-n >= len(c.line) {
		n += copy(p[n:], c.line)
	}
	c.n += n
	return n, nil
}

// TestIntakeReadsNoMoreThanABatchAhead has nobody take what is read.
func TestIntakeReadsNoMoreThanABatchAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		body := &counted{line: `{"payload":"` + strings.Repeat("x", 8<<10) + `"}` + "\n"}
		in := newIntake()
		in.reading.Go(func() { in.read(body, 1<<20) }) // ends with stop
		const most = 1<<20 + 64<<10                    // a batch, and what the reader of lines has
		for n := 1; n <= 3; n++ {
			synctest.Wait()
			if body.n > n*most {
				t.Errorf("after %d batches %d bytes are read", n-1, body.n)
			}
			if _, err := in.next(t.Context()); err != nil {
				t.Error(err)
			}
		}
		in.stop(recorder(), requestOf(t, body))
	})
}

func requestOf(t testing.TB, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", "/", body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// halting is a writer that tells when a deadline for reading is set.
type halting struct {
	http.ResponseWriter
	set chan struct{}
}

func (h *halting) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *halting) SetReadDeadline(t time.Time) error {
	err := http.NewResponseController(h.ResponseWriter).SetReadDeadline(t)
	close(h.set)
	return err
}

// TestIntakeStopsBehindAccess has the reading begin just when it is stopped, so that
// package access sets a deadline of its own behind that of stop.
func TestIntakeStopsBehindAccess(t *testing.T) {
	t.Parallel()
	const pause = 20 * time.Second // that a client may make
	g, err := access.New(access.Config{HTTP: config.HTTP{Listen: "127.0.0.1:0"}, Times: access.Times{Body: pause}})
	if err != nil {
		t.Fatal(err)
	}
	took := make(chan time.Duration, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stopping := &halting{w, make(chan struct{})}
		in := newIntake()
		in.reading.Go(func() { // ends with the body; stop waits for it
			<-stopping.set
			in.read(r.Body, 1<<10)
		})
		begun := time.Now()
		in.stop(stopping, r)
		took <- time.Since(begun)
	})
	s := serveBehind(t, g, []access.Route{{Method: "POST", Pattern: "/lines", Streams: true, Handler: handler}})
	body, send := io.Pipe()
	defer send.Close() // the client sends nothing until then
	resp, err := http.Post(s.URL+"/lines", linesType, body)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Log(err) // the connection may be closed before the answer is read
	}
	if err == nil {
		resp.Body.Close() // nothing is expected of it
	}
	if d := <-took; d > pause/2 {
		t.Errorf("stopping took %v", d)
	}
}

// firstWrite notes how many lines were looked at when the first answers went out.
type firstWrite struct {
	http.ResponseWriter
	lines []bulkLine
	read  int
}

func (w *firstWrite) Flush() {}

func (w *firstWrite) Write(p []byte) (int, error) {
	for w.read == 0 {
		for i := range w.lines {
			if w.lines[i].text == nil {
				w.read++
			}
		}
	}
	return w.ResponseWriter.Write(p)
}

// TestBulkKeepsFewFaults has a batch of lines with many faults each: answers go out
// before all of them are looked at.
func TestBulkKeepsFewFaults(t *testing.T) {
	t.Parallel()
	a, h := newAPI(t)
	bad := "{" + strings.Repeat(`"zzzzzzzzzzzzzzzzzzzz":1,`, 100) + `"z":1}`
	recorded := recorder()
	w := &firstWrite{ResponseWriter: recorded}
	for n := range batchLines {
		text := bad
		if n%2 == 1 {
			text = fmt.Sprintf(`{"payload":"%d","delay":"1h"}`, n)
		}
		w.lines = append(w.lines, bulkLine{number: n + 1, text: []byte(text)})
	}
	b := a.bulkRun("main")
	b.stream = a.stream(w, linesType)
	if err := b.put(t.Context(), w.lines); err != nil {
		t.Fatal(err)
	}
	if w.read > 32 {
		t.Errorf("%d lines were looked at before the first answer", w.read)
	}
	answers := strings.Split(strings.TrimSpace(recorded.Body.String()), "\n")
	if n := h.queue.Stats().Enqueued; len(answers) != batchLines || n != batchLines/2 {
		t.Fatalf("there are %d answers and %d jobs", len(answers), n)
	}
	for i, text := range answers {
		if strings.Contains(text, `"error"`) != (i%2 == 0) || i%2 == 0 && !strings.Contains(text, fmt.Sprintf("Line %d: ", i+1)) {
			t.Fatalf("line %d is answered with %.200s", i+1, text)
		}
	}
}
