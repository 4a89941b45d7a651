package daemon

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/bullpen-run/bullpen/internal/daemon/api"
)

func TestOverviewOfRealPools(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "main", "workers: {min: 1, max: 2}"), "  far: {}\n")
	for range 3 {
		n.want(http.StatusOK, "POST", "/v1/pools/main/jobs?wait=20s", "x")
	}
	n.want(http.StatusUnprocessableEntity, "POST", "/v1/pools/main/run?task=mark", "no JSON")
	n.want(http.StatusAccepted, "POST", "/v1/pools/far/jobs", "x")
	var o api.OverviewInfo
	n.decode(&o, "GET", "/v1/overview")
	if len(o.Pools) != 2 || o.Pools[0].Name != "far" || o.Pools[1].Name != "main" {
		t.Fatalf("the pools are %+v", o.Pools)
	}
	far, main := o.Pools[0], o.Pools[1]
	if far.State != "queue-only" || far.Waiting != 1 || far.Oldest == "" || far.Max != 0 || o.Totals.Waiting != 1 || o.Totals.Oldest != far.Oldest {
		t.Errorf("a pool without workers is %+v, all are %+v", far, o.Totals)
	}
	if main.State != "open" || main.Workers < 1 || main.Max != 2 || main.Waiting != 0 || main.Rate <= 0 || main.Errors <= 0 || main.Errors >= main.Rate || main.WaitP99 <= 0 || main.RunP50 <= 0 {
		t.Errorf("a pool that has worked is %+v", main)
	}
	var h api.HistoryInfo
	n.decode(&h, "GET", "/v1/history?pool=far&span=20s")
	if h.Step != 10 || len(h.Series.Waiting) != 2 {
		t.Errorf("the history is %+v", h)
	}
	n.want(http.StatusNotFound, "GET", "/v1/history?pool=nope", "")
}

// The oldest job of all is not one that waits for workers that do not start: their pool
// says so itself.
func TestOldestOfABrokenPool(t *testing.T) {
	t.Parallel()
	n := start(t, "  bad: {command: [sh, -c, 'exit 3'], grace: 100ms}\n", "  far: {}\n")
	n.want(http.StatusAccepted, "POST", "/v1/pools/bad/jobs", "x")
	n.want(http.StatusAccepted, "POST", "/v1/pools/far/jobs", "x")
	eventually(t, "the pool is known to be broken", func() bool {
		var o api.OverviewInfo
		n.decode(&o, "GET", "/v1/overview")
		if len(o.Pools) != 2 || o.Pools[0].Error == "" {
			return false
		}
		bad, far := o.Pools[0], o.Pools[1]
		if bad.Oldest == "" || far.Oldest == "" || o.Totals.Oldest != far.Oldest || bad.Oldest >= far.Oldest {
			t.Errorf("the oldest is that of %s: bad %s, far %s", o.Totals.Oldest, bad.Oldest, far.Oldest)
		}
		return true
	})
}

func TestRecycleARealWorker(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "main", "workers: {min: 1, max: 1}"), "  far: {}\n")
	var before api.WorkersInfo
	n.decode(&before, "GET", "/v1/workers?pool=main")
	if len(before.Workers) != 1 || before.Workers[0].PID == 0 || before.Workers[0].Age <= 0 {
		t.Fatalf("the workers are %+v", before)
	}
	id := before.Workers[0].ID
	n.want(http.StatusAccepted, "POST", "/v1/workers/"+id+"/recycle?pool=main", "")
	eventually(t, "another worker is there", func() bool {
		var now api.WorkersInfo
		n.decode(&now, "GET", "/v1/workers")
		return len(now.Workers) == 1 && now.Workers[0].ID != id && now.Workers[0].State == "idle"
	})
	if a := n.want(http.StatusNotFound, "POST", "/v1/workers/"+id+"/recycle?pool=main", ""); !strings.Contains(a.body, "GET /v1/workers lists") {
		t.Errorf("of a worker that is gone is said: %s", a.body)
	}
	n.want(http.StatusUnprocessableEntity, "POST", "/v1/workers/"+id+"/recycle?pool=far", "")
}

// decode asks and reads the answer.
func (n *node) decode(v any, method, path string) {
	n.t.Helper()
	a := n.want(http.StatusOK, method, path, "")
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		n.t.Fatal(err)
	}
}
