package daemon

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestRequestsAreCounted wants requests by their routes, whatever they are answered.
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "p", "workers: {min: 1, max: 1}"))
	n.want(http.StatusOK, http.MethodPost, "/v1/pools/p/run?task=echo", "x")
	n.want(http.StatusNotFound, http.MethodPost, "/v1/pools/q/run?task=echo", "x")
	n.want(http.StatusNotFound, http.MethodGet, "/v1/nothing?secret=x", "")
	n.want(http.StatusMethodNotAllowed, http.MethodPut, "/v1/pools/p", "")
	text := n.want(http.StatusOK, http.MethodGet, "/metrics", "").body
	for _, line := range []string{
		`bullpen_http_requests_total{code="2xx",route="POST /v1/pools/{pool}/run"} 1`,
		`bullpen_http_requests_total{code="4xx",route="POST /v1/pools/{pool}/run"} 1`,
		`bullpen_http_requests_total{code="4xx",route="other"} 2`,
		`bullpen_http_request_seconds_count{route="POST /v1/pools/{pool}/run"} 2`,
		`bullpen_process_task_run_seconds_bucket{pool="p",le="100"} 1`,
		`bullpen_queue_wait_seconds_bucket{queue="p",le="0.0025"} 0`,
		`bullpen_store_limit_bytes{stream="jobs"} 4.294967296e+09`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the metrics have no line %s", line)
		}
	}
	for _, m := range regexp.MustCompile(`(bullpen_\w+)_bucket\{.*le="([0-9].*)"`).FindAllStringSubmatch(text, -1) {
		edge, err := strconv.ParseFloat(m[2], 64)
		digits, _, _ := strings.Cut(strconv.FormatFloat(edge, 'e', -1, 64), "e")
		if err != nil || len(digits) > len("2.5") {
			t.Errorf("an edge of %s is %s, not a round number (%v)", m[1], m[2], err)
		}
	}
	if strings.Contains(text, "secret") || strings.Contains(text, "v1/nothing") {
		t.Error("the metrics show the path of a request")
	}
}
