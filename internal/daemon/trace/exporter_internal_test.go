package trace

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
	"github.com/bullpen-run/bullpen/internal/daemon/trace/tracetest"
)

// some makes n spans.
func some(n int) []span {
	all := make([]span, n)
	for i := range all {
		all[i] = span{trace: newID(), id: newSpanID(), name: "some", kind: kindInternal, start: time.Unix(1, 0), end: time.Unix(2, 0)}
	}
	return all
}

// collected starts an exporter to a collector.
func collected(t *testing.T, c Config) (*exporter, *tracetest.Collector) {
	t.Helper()
	to := tracetest.New()
	t.Cleanup(to.Close)
	c.Traces.Endpoint = to.URL()
	e := newExporter(c.withDefaults())
	t.Cleanup(func() { e.close(t.Context()) }) // the context has ended by then
	return e, to
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestSends wants all spans to come, with what hangs on them.
func TestSends(t *testing.T) {
	t.Parallel()
	e, to := collected(t, Config{Node: "n", Version: "v", Traces: settings.Traces{Service: "s\xff"}})
	const n = 3*batchSize + 7
	e.put(some(n)...)
	s := some(1)[0]
	s.state, s.parent = "a=b", newSpanID()
	s.text("text", "ä\xff")
	s.text("empty", "")
	s.number("number", -7)
	s.seconds("seconds", 1500*time.Millisecond)
	s.flag("flag", true)
	s.flag("no flag", false)
	s.fail(strings.Repeat("ä", mostMessage))
	e.put(s)
	e.close(within(t, 30*time.Second))
	all, err := to.Await(within(t, 30*time.Second), func(all []tracetest.Span) bool { return len(all) == n+1 })
	if err != nil {
		t.Fatal(err)
	}
	last := all[n]
	if last.Trace != s.trace.String() || last.ID != s.id.String() || last.Parent != s.parent.String() || last.State != "a=b" || last.Kind != "internal" ||
		!last.Start.Equal(s.start) || !last.End.Equal(s.end) || !last.Failed || last.Message != strings.Repeat("ä", mostMessage/2) {
		t.Errorf("the span came as %+v", last)
	}
	if a := last.Attributes; len(a) != 4 || a["text"] != "ä\uFFFD" || a["number"] != int64(-7) || a["seconds"] != 1.5 || a["flag"] != true {
		t.Errorf("its attributes came as %v", a)
	}
	if r := last.Resource; r["service.name"] != "s\uFFFD" || r["service.instance.id"] != "n" || r["service.version"] != "v" {
		t.Errorf("the resource came as %v", r)
	}
	if c := e.counts(); c != (Counts{Sent: n + 1}) {
		t.Errorf("the counts are %+v", c)
	}
	e.put(s)
	if c := e.counts(); c.Dropped != 1 {
		t.Errorf("after the end a span is put with %+v", c)
	}
}

// TestBounded drops what has no room, and never waits.
func TestBounded(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	e, to := collected(t, Config{Buffer: 10})
	came := make(chan struct{}, 16)
	to.Refuse(func(http.ResponseWriter, *http.Request) bool {
		came <- struct{}{}
		<-hang
		return true
	})
	e.put(some(3)...)
	<-came // and are held
	e.put(some(8)...)
	e.put(some(8)...)
	if c := e.counts(); c.Dropped != 6 || c.Waiting != 10 || c.Sent != 0 {
		t.Errorf("with room for 10 of 16 there are %+v", c)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	e.close(ended)
	close(hang)
	if c := e.counts(); c != (Counts{Dropped: 19, Failures: c.Failures}) {
		t.Errorf("after the end there are %+v, want all 19 dropped", c)
	}
}

// TestTriesAgain sends again what may be taken the next time, and nothing else.
func TestTriesAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status   int
		body     string
		requests int
		sent     uint64
		dropped  uint64
	}{
		"busy":        {http.StatusServiceUnavailable, "", 2, 2, 0},
		"too many":    {http.StatusTooManyRequests, "", 2, 2, 0},
		"refused":     {http.StatusUnauthorized, "no\nsuch\x00token", 1, 0, 2},
		"redirected":  {http.StatusFound, "", 1, 0, 2},
		"in part":     {http.StatusOK, "\x0a\x02\x08\x01", 1, 1, 1},
		"nonsense":    {http.StatusOK, "\xff\xff\xff", 1, 2, 0},
		"cut":         {http.StatusOK, "\x0a\x09\x08\x01", 1, 2, 0},
		"far too few": {http.StatusOK, "\x0a\x06\x08\xff\xff\xff\xff\x07", 1, 0, 2},
		"no content":  {http.StatusNoContent, "", 1, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			e, to := collected(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			first := true // the collector is asked by one goroutine, once at a time
			to.Refuse(func(w http.ResponseWriter, _ *http.Request) bool {
				if !first {
					return false
				}
				first = false
				w.WriteHeader(c.status)
				w.Write([]byte(c.body)) //nolint:errcheck // it is short
				return true
			})
			e.put(some(2)...)
			e.close(within(t, 20*time.Second))
			if got, _ := to.Requests(); got != c.requests {
				t.Errorf("%d requests came, want %d", got, c.requests)
			}
			if got := e.counts(); got.Sent != c.sent || got.Dropped != c.dropped {
				t.Errorf("the counts are %+v, want %d sent and %d dropped", got, c.sent, c.dropped)
			}
			if bad := c.status >= 300; bad != strings.Contains(log.String(), "traces cannot be sent") || strings.Contains(log.String(), "\x00") {
				t.Errorf("the log has %q", log.String())
			}
		})
	}
}

// TestPatience gives a batch up after a while, so that newer ones have their turn.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newExporter(Config{Traces: settings.Traces{Endpoint: "http://collector.invalid:1"}}.withDefaults())
		e.client.Transport = refusing{}
		begun := time.Now()
		e.put(some(5)...)
		synctest.Wait()
		for e.counts().Dropped == 0 {
			<-time.After(time.Second)
		}
		if took := time.Since(begun); took > patience+lastPause+time.Second || took < patience/2 {
			t.Errorf("it was given up after %v", took)
		}
		if c := e.counts(); c.Dropped != 5 || c.Failures < 4 || c.Failures > 12 {
			t.Errorf("the counts are %+v", c)
		}
		e.close(t.Context())
	})
}

// refusing is a network without anybody.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed }

func FuzzRejected(f *testing.F) {
	f.Add([]byte("\x0a\x02\x08\x01"))
	f.Add([]byte("\xff"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		if n := rejected(answer); n < 0 {
			t.Errorf("%d were rejected", n)
		}
	})
}
