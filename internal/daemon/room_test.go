package daemon

import (
	"net/http"
	"path/filepath"
	"testing"
)

// TestEarlierCallMakesRoom shows that a job gets the worker of one that an earlier
// call of Work had taken, while the present one has another job in hand.
func TestEarlierCallMakesRoom(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 1, max: 1}"))
	folder := t.TempDir()
	a, b := filepath.Join(folder, "a"), filepath.Join(folder, "b")
	first := n.background("/v1/pools/one/jobs?task=hold&wait=1m", a)
	eventually(t, "the first job runs", func() bool { return exists(a + ".begun") })
	n.want(http.StatusOK, http.MethodPost, "/v1/pools/one/scale", `{"max":2}`)
	second := n.background("/v1/pools/one/jobs?task=hold&wait=1m", b)
	eventually(t, "the second job runs", func() bool { return exists(b + ".begun") })
	third := n.background("/v1/pools/one/jobs?wait=5s", "third")
	touch(t, a)
	if got := first.wait(); got.body != "held" {
		t.Errorf("the first job: %d %s", got.status, got.body)
	}
	if got := third.wait(); got.body != "third" {
		t.Errorf("the third job: %d %s", got.status, got.body)
	}
	touch(t, b)
	if got := second.wait(); got.body != "held" {
		t.Errorf("the second job: %d %s", got.status, got.body)
	}
}
