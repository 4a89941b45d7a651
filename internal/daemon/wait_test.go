package daemon

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"
)

// TestWaitHasTheQueue wants the wait of a pool to have the time that jobs were in the
// durable queue.
func TestWaitHasTheQueue(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "work", "workers: {min: 1, max: 1}, queue: 1"))
	gate := filepath.Join(t.TempDir(), "gate")
	n.want(http.StatusAccepted, http.MethodPost, "/v1/pools/work/jobs?task=hold", gate)
	eventually(t, "the first job runs", func() bool { return exists(gate + ".begun") })
	for range 9 {
		n.want(http.StatusAccepted, http.MethodPost, "/v1/pools/work/jobs", "x")
	}
	last := n.want(http.StatusAccepted, http.MethodPost, "/v1/pools/work/jobs", "x")
	n.want(http.StatusAccepted, http.MethodGet, last.header.Get("Location")+"/result?wait=300ms", "") // so long they wait
	touch(t, gate)
	n.want(http.StatusOK, http.MethodGet, last.header.Get("Location")+"/result?wait=20s", "")
	var p struct {
		WaitP50 float64 `json:"wait_p50"`
	}
	a := n.want(http.StatusOK, http.MethodGet, "/v1/pools/work", "")
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatal(err)
	}
	if p.WaitP50 < 0.3 {
		t.Errorf("half of the jobs are said to have waited %v s, and they waited 0.3 s at least", p.WaitP50)
	}
}
