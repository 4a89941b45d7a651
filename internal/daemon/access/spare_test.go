package access

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/settings"
)

// holding is a route whose requests last until the client goes.
func holding(follows bool) Route {
	return Route{Method: "GET", Pattern: "/hold", Role: Read, Follows: follows, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		<-r.Context().Done()
	})}
}

// holds begins a request for /hold on a connection of its own, and returns its status.
func (s *served) holds(t *testing.T, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/hold", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Body.Close() })
	return a.StatusCode
}

// TestSparePlaces has every connection at work: probes and administrators are served
// all the same, and others are refused.
func TestSparePlaces(t *testing.T) {
	t.Parallel()
	const most = 8
	s := serve(t, Config{
		HTTP:  settings.HTTP{MaxConnections: most, Tokens: tokenFile(t)},
		Times: Times{Place: 5 * time.Millisecond, Settle: 5 * time.Millisecond},
	}, append(testRoutes(), holding(false)))
	for range most {
		if status := s.holds(t, readToken); status != 200 {
			t.Fatalf("a request is answered with %d", status)
		}
	}
	for range spareConnections + 3 {
		status, header, text := s.do(t, "GET", "/v1/jobs/1", "", "Authorization", "Bearer "+submitToken)
		if status != 429 || header.Get("Retry-After") == "" || !strings.Contains(text, "http.max_connections") {
			t.Fatalf("a newcomer while all are at work: %d %s", status, text)
		}
		s.want(t, 200, "", "GET", "/livez", "")
		s.want(t, 200, "", "DELETE", "/v1/jobs/1", "", "Authorization", "Bearer "+adminToken)
		s.want(t, 200, "", "GET", "/v1/jobs/1", "", "Authorization", "Bearer "+adminToken)
	}
}

// TestStreamsAreBounded has clients follow as much as they may.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{HTTP: settings.HTTP{MaxConnections: 16, Tokens: tokenFile(t), MaxStreams: 6, MaxClientStreams: 4}}, append(testRoutes(), holding(true)))
	for i, want := range []int{200, 200, 200, 200, 429, 429} {
		if status := s.holds(t, readToken); status != want {
			t.Errorf("stream %d of a client is answered with %d, want %d", i, status, want)
		}
	}
	for i, want := range []int{200, 200, 429} {
		if status := s.holds(t, submitToken); status != want {
			t.Errorf("stream %d of another client is answered with %d, want %d", i, status, want)
		}
	}
	s.want(t, 200, "", "GET", "/v1/jobs/1", "", "Authorization", "Bearer "+readToken)
	s.want(t, 200, "", "GET", "/livez", "")
}
