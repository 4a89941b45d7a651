package poolhttp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bullpen-run/bullpen/pool"
)

// TestBulkhead: while the lane of a slow endpoint is full to the brim, all
// requests to another one are answered, and no more than the limit of slow ones run.
func TestBulkhead(t *testing.T) {
	t.Parallel()
	p := open(t, pool.Config{Max: 4})
	slowLane := lane(t, p, pool.LaneConfig{Name: "slow", Limit: 2, Queue: 10})
	fastLane := lane(t, p, pool.LaneConfig{Name: "fast", Queue: 100})
	end := make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	defer release() // also where the test fails
	var now, most atomic.Int64
	mux := http.NewServeMux()
	mux.Handle("/slow", wrap(t, Config{Target: slowLane}, func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-end
	}))
	mux.Handle("/fast", wrap(t, Config{Target: fastLane}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	s := serve(t, mux)
	var counts [2]atomic.Int64
	var slow, fast sync.WaitGroup
	send := func(n int) {
		for range n {
			slow.Go(func() {
				switch code := statusOf(t, s, "/slow"); code {
				case http.StatusOK:
					counts[0].Add(1)
				case http.StatusServiceUnavailable:
					counts[1].Add(1)
				default:
					t.Errorf("slow: %d", code)
				}
			})
		}
	}
	send(2)
	until(t, "two requests run", func() bool { return slowLane.Stats().Running == 2 })
	send(38)
	until(t, "the lane is full", func() bool { return slowLane.Stats().Queued == 10 })
	for range 50 {
		fast.Go(func() {
			if code := statusOf(t, s, "/fast"); code != http.StatusOK {
				t.Errorf("fast: %d", code)
			}
		})
	}
	fast.Wait() // while all slow ones stand still
	until(t, "those too many are refused", func() bool { return counts[1].Load() == 28 })
	release()
	slow.Wait()
	if ok := counts[0].Load(); ok != 12 || most.Load() != 2 {
		t.Errorf("%d slow requests were answered, %d at a time; want 12 and 2", ok, most.Load())
	}
}

func statusOf(t *testing.T, s *httptest.Server, path string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
	if err != nil {
		t.Error(err)
		return 0
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
