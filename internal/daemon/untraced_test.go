package daemon

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/trace/tracetest"
)

// TestNotSampled wants no spans, and the handler to know that.
func TestNotSampled(t *testing.T) {
	t.Parallel()
	n := tracedNode(t, "sample: 0", mine(t, "p", "workers: {min: 1, max: 1}"))
	for _, says := range []string{"", strings.TrimSuffix(callerSays, "1") + "0"} {
		for _, way := range []string{"jobs?wait=20s&task=trace", "run?task=trace"} {
			if a := n.call(says, "/v1/pools/p/"+way, ""); !strings.HasSuffix(a.body, "-00") || says != "" && !strings.Contains(a.body, callerTrace) {
				t.Errorf("the handler of %s got %q", way, a.body)
			}
		}
	}
	n.call(callerSays, "/v1/pools/p/run?task=trace", "") // says that it is sampled
	n.await(callerTrace, 3)
	if all, err := n.to.Await(t.Context(), func([]tracetest.Span) bool { return true }); err != nil || len(all) != 3 {
		t.Errorf("%q were exported, %v", tracetest.Names(all), err)
	}
}

// TestDeafCollector wants tasks to run, and the daemon to stop, as if the collector
// was there.
func TestDeafCollector(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]func(hang <-chan struct{}) tracetest.Answer{
		"hangs": func(hang <-chan struct{}) tracetest.Answer {
			return func(_ http.ResponseWriter, r *http.Request) bool {
				select {
				case <-hang:
				case <-r.Context().Done():
				}
				return true
			}
		},
		"refuses": func(<-chan struct{}) tracetest.Answer {
			return func(w http.ResponseWriter, _ *http.Request) bool {
				http.Error(w, "no room", http.StatusServiceUnavailable)
				return true
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := tracedNode(t, "", mine(t, "p", "workers: {min: 1, max: 1}"))
			hang := make(chan struct{})
			defer close(hang)
			n.to.Refuse(answers(hang))
			for range 50 {
				if a := n.call(callerSays, "/v1/pools/p/jobs?task=trace&wait=20s", ""); a.status != http.StatusOK {
					t.Fatalf("%d %s", a.status, a.body)
				}
			}
			begun := time.Now()
			n.Stop()
			if err := n.wait(); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("the stop took %v with a grace of 20 s", took)
			}
			if c := n.tracer.Counts(); c.Dropped != 50*5 || c.Sent != 0 {
				t.Errorf("of 250 spans %+v", c)
			}
		})
	}
}

// TestNoTraces wants nothing to be in the way where no collector is configured.
func TestNoTraces(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "p", "workers: {min: 1, max: 1}"))
	p, err := n.find("p")
	if err != nil {
		t.Fatal(err)
	}
	if n.tracer != nil || p.generation().starts != nil {
		t.Error("traces are on")
	}
	if a := n.want(http.StatusOK, http.MethodPost, "/v1/pools/p/run?task=trace", ""); a.body != "" {
		t.Errorf("the handler got %q", a.body)
	}
	if text := n.want(http.StatusOK, http.MethodGet, "/metrics", "").body; !strings.Contains(text, "\nbullpen_traces_dropped_total 0\n") {
		t.Error("the metrics have no bullpen_traces_dropped_total")
	}
}
