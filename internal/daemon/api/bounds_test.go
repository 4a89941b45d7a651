package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/access"
	"github.com/bullpen-run/bullpen/internal/daemon/problem"
	config "github.com/bullpen-run/bullpen/internal/daemon/settings" // settings is the table of this package
	"github.com/bullpen-run/bullpen/job"
)

// newProtectedSite returns an API that is served behind an access.Control.
func newProtectedSite(t testing.TB, c access.Config, change ...func(*Config)) *site {
	t.Helper()
	a, h := newAPI(t, change...)
	c.HTTP.Listen = "127.0.0.1:0"
	g, err := access.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &site{t, a, h, serveBehind(t, g, a.Routes())}
}

// serveBehind serves routes behind an access.Control.
func serveBehind(t testing.TB, g *access.Control, routes []access.Route) *httptest.Server {
	t.Helper()
	l, err := g.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nil)
	s.Listener.Close() // that of the Control is used
	s.Listener, s.Config = l, g.Server(g.Wrap(routes, Fallback(routes)))
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// TestWaitingHoldsNoRoom has more requests wait than have room among all bodies at
// a time, and another that finds room.
func TestWaitingHoldsNoRoom(t *testing.T) {
	t.Parallel()
	for _, size := range []int{smallPayload, 3 * smallPayload} {
		waitInVain(t, size)
	}
}

func waitInVain(t *testing.T, size int) {
	t.Helper()
	s := newProtectedSite(t, access.Config{HTTP: config.HTTP{MaxBody: int64(size) * 5 / 4, MaxInflight: int64(size) * 5 / 4}})
	body := strings.Repeat("x", size)
	done := make(chan reply)
	ctx, cancel := context.WithCancel(t.Context())
	const n = 4
	for i := range n {
		go func() { // ends with ctx; it is waited for below
			wait := []string{"30s", "4s"}[i%2] // which are two ways to wait
			r, err := http.NewRequestWithContext(ctx, "POST", s.http.URL+"/v1/pools/main/jobs?delay=1h&wait="+wait, strings.NewReader(body))
			if err != nil {
				t.Error(err)
			}
			resp, err := s.http.Client().Do(r)
			if err != nil {
				done <- reply{}
				return
			}
			defer resp.Body.Close() // the status says it
			done <- reply{status: resp.StatusCode}
		}()
		for s.daemon.queue.Stats().Enqueued <= uint64(i) {
			select {
			case r := <-done:
				t.Fatalf("one that waits is answered with %d", r.status)
			case <-time.After(time.Millisecond): // the queue tells nobody when it has stored a job
			}
		}
	}
	if r := s.do("POST", "/v1/pools/main/jobs?delay=1h", body); r.status != http.StatusAccepted {
		t.Errorf("another is answered with %d %s", r.status, r.body)
	}
	cancel()
	for range n {
		<-done
	}
}

// TestWaitingHoldsNoPayload has a request wait, and its payload go.
func TestWaitingHoldsNoPayload(t *testing.T) {
	t.Parallel()
	a, h := newAPI(t)
	for _, c := range []struct {
		wait time.Duration
		size int
	}{{2 * surely, smallPayload}, {2 * surely, 2 * smallPayload}, {surely - time.Second, smallPayload}} {
		gone := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		before := h.queue.Stats().Enqueued
		go func() { // ends with ctx; it is waited for below
			defer close(done)
			r := httptest.NewRequestWithContext(ctx, "POST", "/", http.NoBody)
			payload := make([]byte, c.size)
			runtime.AddCleanup(&payload[0], func(struct{}) { close(gone) }, struct{}{})
			job := job.Job{Queue: "main", Name: "echo", At: time.Now().Add(time.Hour), Payload: payload}
			a.submitAndWait(recorder(), r, &job, c.wait)
		}()
		for h.queue.Stats().Enqueued == before {
			runtime.Gosched()
		}
		for let := false; !let; {
			runtime.GC()
			select {
			case <-gone:
				let = true
			case <-done:
				t.Fatalf("waiting %v ended before the payload was let go", c.wait)
			case <-time.After(time.Millisecond): // cleanups run some time after the collection
			}
		}
		cancel()
		<-done
	}
}

// TestManyFaultsCostLittle has requests with more faults than are reported: the rest of
// them is not looked at. It counts allocations, and so runs by itself.
func TestManyFaultsCostLittle(t *testing.T) {
	const n = 20000
	many := func(each string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteString(each[:1])
			}
			fmt.Fprintf(&b, each[1:], i)
		}
		return b.String()
	}
	line := func(text string, _ *faults) { readLine([]byte(text), lineFields, 1<<10, time.Now()) }
	query := func(text string, f *faults) { readQuery(text, submitParams, f) }
	headers := func(text string, f *faults) { new(order).readHeaders(http.Header{headerMeta: {text}}, f) }
	for _, c := range []struct {
		name, text string
		read       func(string, *faults)
	}{
		{"unknown fields", "{" + many(`,"unknown%d":1`) + "}", line},
		{"fields that are there twice", "{" + many(`,"task":"%d"`) + "}", line},
		{"keys of meta", `{"meta":{` + many(`,"bullpen.%d":""`) + "}}", line},
		{"values of meta", `{"meta":{` + many(`,"%d":7`) + "}}", line},
		{"unknown parameters", many("&unknown%d=1"), query},
		{"parameters that are there twice", many("&task=%d"), query},
		{"headers of meta", many("&%d"), headers},
		{"keys in headers of meta", many("&bullpen.%d=1"), headers},
	} {
		var f faults
		used := testing.AllocsPerRun(1, func() {
			f = faults{}
			c.read(c.text, &f)
		})
		if used > 2000 || len(f.texts) > mostFaults+1 {
			t.Errorf("%s: %v allocations, %d faults", c.name, used, len(f.texts))
		}
	}
	large := `{"priority":"` + strings.Repeat("\\u0001", 10000) + `"}`
	if _, p := readLine([]byte(large), lineFields, 1<<20, time.Now()); len(p.JSON()) > 20*longestFault {
		t.Errorf("one fault is reported in %d bytes", len(p.JSON()))
	}
}

// drip is a reader of so many bytes a second. It keeps to the deadlines that are
// set.
type drip struct {
	http.ResponseWriter
	rate  int
	until time.Time
	got   bytes.Buffer
}

func (d *drip) SetWriteDeadline(t time.Time) error { d.until = t; return nil }
func (d *drip) Flush()                             {}

func (d *drip) Write(p []byte) (int, error) {
	took := time.Duration(len(p)) * time.Second / time.Duration(d.rate)
	if left := time.Until(d.until); !d.until.IsZero() && took > left {
		<-time.After(left)
		return 0, os.ErrDeadlineExceeded
	}
	<-time.After(took)
	return d.got.Write(p)
}

// TestSlowReaderOfMuch has a large result go to a slow reader, which takes longer
// than one who reads nothing may.
func TestSlowReaderOfMuch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t)
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/pools/main/run", strings.NewReader(strings.Repeat("y", 120<<10)))
		r.Header.Set("Accept", eventsType)
		w := &drip{ResponseWriter: recorder(), rate: 4 << 10} // 160 KiB take 40 s
		begun := time.Now()
		a.Handler().ServeHTTP(w, r)
		all := readAllEvents(t, &w.got)
		if took := time.Since(begun); took <= defaultPatience || len(all) < 1 || all[len(all)-1].kind != "result" {
			t.Errorf("after %v there were %d events", took, len(all))
		}
	})
}

// readAllEvents is readEvents for large ones.
func readAllEvents(t testing.TB, r io.Reader) (all eventList) {
	t.Helper()
	reader := newEventReader(t, r)
	reader.lines.Buffer(nil, 1<<20)
	for {
		e, more := reader.next()
		if !more {
			return all
		}
		all = append(all, e)
	}
}

// TestTooManyWait has as many requests wait as may, and others.
func TestTooManyWait(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *Config) { c.MaxWaiting = 2 })
	id := s.submit("delay=1h", "")
	follower := s.open(t.Context(), "GET", "/v1/jobs/"+id+"/events", http.NoBody)
	defer follower.Body.Close() // it is closed below
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with ctx; it is waited for below
		defer close(done)
		r, err := http.NewRequestWithContext(ctx, "GET", s.http.URL+"/v1/jobs/"+id+"?wait=1m", http.NoBody)
		if err != nil {
			t.Error(err)
		}
		if resp, err := s.http.Client().Do(r); err == nil {
			resp.Body.Close() // it is not expected
			t.Errorf("waiting is answered with %d", resp.StatusCode)
		}
	}()
	count := func() int {
		s.api.waits.mu.Lock()
		defer s.api.waits.mu.Unlock()
		return len(s.api.waits.all)
	}
	for count() < 2 {
		runtime.Gosched()
	}
	stored := s.daemon.queue.Stats().Enqueued
	for _, c := range []struct{ method, path string }{
		{"POST", "/v1/pools/main/jobs?wait=20s"}, {"POST", "/v1/pools/main/jobs?wait=1s"}, {"GET", "/v1/jobs/" + id + "?wait=1s"},
		{"GET", "/v1/jobs/" + id + "/result?wait=1s"}, {"GET", "/v1/jobs/" + id + "/events"},
	} {
		r := s.do(c.method, c.path, "")
		if p := isProblem(t, r, problem.Rate); r.header.Get("Retry-After") == "" || !strings.Contains(p.Detail, "(2)") {
			t.Errorf("%s: %v %+v", c.path, r.header, p)
		}
	}
	if n := s.daemon.queue.Stats().Enqueued; n != stored {
		t.Errorf("%d jobs were stored all the same", n-stored)
	}
	if r := s.do("POST", "/v1/pools/main/jobs", ""); r.status != http.StatusAccepted {
		t.Errorf("who does not wait is answered with %d %s", r.status, r.body)
	}
	cancel()
	<-done
	follower.Body.Close() // nothing more is expected of it
	for count() > 0 {
		runtime.Gosched()
	}
	if r := s.do("POST", "/v1/pools/main/jobs?wait=20s", "x"); r.status != http.StatusOK || r.body != "x" {
		t.Errorf("then one that waits is answered with %d %q", r.status, r.body)
	}
}
