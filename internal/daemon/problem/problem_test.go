package problem_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/problem"
)

func TestEveryCauseIsAnswered(t *testing.T) {
	t.Parallel()
	seen := map[problem.Cause]bool{}
	for _, c := range problem.Causes() {
		if seen[c] {
			t.Errorf("the cause %s has two rows", c)
		}
		seen[c] = true
		w := httptest.NewRecorder()
		problem.New(c, "Do <this>.").Write(w)
		var got problem.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		if w.Code != c.Status() || got.Status != w.Code || got.Cause != c || got.Type != "urn:bullpen:problem:"+string(c) || got.Title == "" {
			t.Errorf("%s is answered with %d %+v", c, w.Code, got)
		}
		if !strings.Contains(w.Body.String(), "<this>") {
			t.Errorf("%s: the detail is escaped: %s", c, w.Body)
		}
		asks := w.Code == http.StatusTooManyRequests || w.Code == http.StatusServiceUnavailable
		if has := w.Header().Get("Retry-After") != ""; has != asks {
			t.Errorf("%s: Retry-After is there: %v, want %v", c, has, asks)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers are %v", c, w.Header())
		}
	}
	if got := problem.Cause("nonsense").Status(); got != http.StatusInternalServerError {
		t.Errorf("an unknown cause has the status %d", got)
	}
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	t.Parallel()
	p := problem.New(problem.Rate, "")
	p.RetryAfter = 1200 * time.Millisecond
	w := httptest.NewRecorder()
	p.Write(w)
	if got := w.Header().Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After is %q", got)
	}
}
