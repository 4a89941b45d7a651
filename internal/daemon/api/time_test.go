package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ask has an API answer without a network, so that its time may be a test's own.
func ask(ctx context.Context, a *API, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, method, path, http.NoBody)
	a.Handler().ServeHTTP(w, r)
	return w
}

// TestEventsShowThatTheyLive has nothing happen for a minute.
func TestEventsShowThatTheyLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t)
		ref := ask(t.Context(), a, "POST", "/v1/pools/main/jobs?delay=1h")
		path := ref.Header().Get("Location") + "/events"
		ctx, cancel := context.WithTimeout(t.Context(), 61*time.Second)
		defer cancel()
		w := ask(ctx, a, "GET", path)
		all := readEvents(t, w.Body)
		if n := len(all.of("")); n != 4 || len(all.of("state")) != 1 || len(all) != 5 {
			t.Errorf("in a minute there were\n%s", all)
		}
	})
}

// TestEventsOfALaterJob has a job begin while it is followed.
func TestEventsOfALaterJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := newAPI(t)
		ref := ask(t.Context(), a, "POST", "/v1/pools/main/jobs?delay=10m&task=talk")
		begun := time.Now()
		w := ask(t.Context(), a, "GET", ref.Header().Get("Location")+"/events")
		all := readEvents(t, w.Body)
		if took := time.Since(begun); took < 10*time.Minute || took > 10*time.Minute+longestLook+time.Second {
			t.Errorf("it took %v", took)
		}
		if len(all.of("log")) != 3 || len(all.of("end")) != 1 || len(all.of("progress")) != 1 {
			t.Errorf("there were\n%s", all)
		}
	})
}

// TestWaitsAreCut has waits that end by their own time, by the bound, and by the
// end of the daemon.
func TestWaitsAreCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, query string
		stop        time.Duration // after that the daemon stops
		want        time.Duration
	}{
		{"by its own time", "wait=90s", 0, 90 * time.Second},
		{"by a short time", "wait=2s", 0, 2 * time.Second},
		{"by the bound", "wait=99h", 0, defaultMaxWait},
		{"when the daemon stops", "wait=90s", time.Minute, time.Minute + lastMoments},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a, h := newAPI(t)
				if c.stop > 0 {
					timer := time.AfterFunc(c.stop, h.end)
					defer timer.Stop()
				}
				begun := time.Now()
				w := ask(t.Context(), a, "POST", "/v1/pools/main/jobs?task=wait&"+c.query)
				if took := time.Since(begun); w.Code != http.StatusAccepted || took != c.want {
					t.Errorf("it answers %d %s after %v", w.Code, w.Body, took)
				}
				if !strings.Contains(w.Body.String(), `"pool":"main"`) {
					t.Errorf("the answer is %s", w.Body)
				}
			})
		})
	}
}
