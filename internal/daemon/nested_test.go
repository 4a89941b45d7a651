package daemon

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// nestIn is the payload of a task that submits to pools, one within the other.
func (n *node) nestIn(way, priority string, quit time.Duration, pools ...string) string {
	n.t.Helper()
	b, err := json.Marshal(nested{URL: n.url, Pools: pools, Way: way, Priority: priority, Quit: quit})
	if err != nil {
		n.t.Fatal(err)
	}
	return string(b)
}

// restored waits until no worker is there for tasks that wait.
func (n *node) restored(pools ...string) {
	n.t.Helper()
	for _, name := range pools {
		p, err := n.find(name)
		if err != nil {
			n.t.Fatal(err)
		}
		eventually(n.t, "the bounds of the pool are restored", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(p.waiting) == 0 && p.helpers() == 0
		})
		eventually(n.t, "the helpers have left", func() bool {
			s := n.shown(name)
			return s.Workers.Idle+s.Workers.Busy+s.Workers.Starting <= s.Max && s.Helpers == 0
		})
	}
}

// TestNested submits from within tasks to the pool that runs them, and waits.
func TestNested(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"run", "jobs"} {
		for _, priority := range []string{"high", "normal", "low"} {
			if way == "run" && priority != "normal" {
				continue
			}
			t.Run(way+" "+priority, func(t *testing.T) {
				t.Parallel()
				n := start(t, mine(t, "one", "workers: {min: 1, max: 1}, helpers: 5"), mine(t, "two", "workers: {min: 0, max: 1}, helpers: 5"))
				a := n.want(http.StatusOK, http.MethodPost, "/v1/pools/one/jobs?task=nest&wait=1m&attempts=1", n.nestIn(way, priority, 0, "one", "one", "one"))
				if a.body != "3" {
					t.Errorf("own pool: %q, want 3 levels", a.body)
				}
				a = n.want(http.StatusOK, http.MethodPost, "/v1/pools/one/run?task=nest", n.nestIn(way, priority, 0, "two", "one", "two", "one"))
				if a.body != "4" {
					t.Errorf("two pools: %q, want 4 levels", a.body)
				}
				n.restored("one", "two")
			})
		}
	}
}

// TestNestedWithOneJob shows that a bound of jobs in hand does not count those that
// wait for others.
func TestNestedWithOneJob(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 1, max: 4}, jobs: 1"))
	a := n.want(http.StatusOK, http.MethodPost, "/v1/pools/one/jobs?task=nest&wait=1m&attempts=1", n.nestIn("jobs", "normal", 0, "one", "one", "one"))
	if a.body != "3" {
		t.Errorf("%q, want 3 levels", a.body)
	}
	n.restored("one")
}

// TestNestedTooDeep shows that what would hang is refused, and says what to do.
func TestNestedTooDeep(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"run", "jobs"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			n := start(t, mine(t, "one", "workers: {min: 1, max: 1}, helpers: 1"), mine(t, "none", "workers: {min: 0, max: 2}, helpers: 0"))
			a := n.want(http.StatusUnprocessableEntity, http.MethodPost, "/v1/pools/one/jobs?task=nest&wait=1m&attempts=1", n.nestIn(way, "normal", 0, "one", "one", "one"))
			if !strings.Contains(a.body, "409") || !strings.Contains(a.body, "raise helpers or workers.max") {
				t.Errorf("too deep: %s", a.body)
			}
			if a := n.want(http.StatusOK, http.MethodPost, "/v1/pools/none/run?task=nest", n.nestIn(way, "normal", 0, "none")); a.body != "1" {
				t.Errorf("with a free worker and no helpers: %q", a.body)
			}
			n.want(http.StatusUnprocessableEntity, http.MethodPost, "/v1/pools/none/run?task=nest", n.nestIn(way, "normal", 0, "none", "none", "none"))
			n.restored("one", "none")
		})
	}
}

// TestNestedWithoutBudget shows that a helper for which the budget has no room is
// an error, and no wait without end.
func TestNestedWithoutBudget(t *testing.T) {
	t.Parallel()
	n := open(t, mine(t, "one", "workers: {min: 1, max: 1}, helpers: 5"), "budget: {workers: 2}\n")
	n.begin()
	<-n.Ready()
	a := n.want(http.StatusUnprocessableEntity, http.MethodPost, "/v1/pools/one/run?task=nest", n.nestIn("run", "", 0, "one", "one"))
	if !strings.Contains(a.body, "409") || !strings.Contains(a.body, "budget") {
		t.Errorf("without room: %s", a.body)
	}
	if a := n.want(http.StatusOK, http.MethodPost, "/v1/pools/one/run?task=nest", n.nestIn("run", "", 0, "one")); a.body != "1" {
		t.Errorf("with room for one helper: %q", a.body)
	}
	n.restored("one")
}

// TestNestedAtOnce has many tasks wait at the same time, with others in between.
func TestNestedAtOnce(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "workers: {min: 1, max: 2}, helpers: 100"))
	var all sync.WaitGroup
	for i := range atOnce() {
		way := []string{"run", "jobs"}[i%2]
		all.Go(func() {
			path := "/v1/pools/one/jobs?wait=1m&attempts=1&task=nest"
			body, want := n.nestIn(way, []string{"high", "normal", "low"}[i%3], 0, "one", "one"), "2"
			if i%5 == 0 {
				path, body, want = "/v1/pools/one/run", strconv.Itoa(i), strconv.Itoa(i)
			}
			a, err := n.send(t.Context(), http.MethodPost, path, body)
			if err != nil || a.status != http.StatusOK || a.body != want {
				t.Errorf("%d: %v %d %q, want %q", i, err, a.status, a.body, want)
			}
		})
	}
	all.Wait()
	n.restored("one")
}

// TestNestedCutOff shows that the helper goes when the request that a task waits
// with is cut off, whatever becomes of what it waits for.
func TestNestedCutOff(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"run", "jobs"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			n := start(t, mine(t, "one", "workers: {min: 1, max: 1}, helpers: 2"))
			leaf := filepath.Join(t.TempDir(), "go")
			b, err := json.Marshal(nested{URL: n.url, Pools: []string{"one"}, Way: way, Priority: "normal", Quit: 100 * time.Millisecond, Leaf: leaf})
			if err != nil {
				t.Fatal(err)
			}
			n.want(http.StatusUnprocessableEntity, http.MethodPost, "/v1/pools/one/run?task=nest", string(b))
			if !exists(leaf + ".begun") {
				t.Error("the child did not start while its parent waited")
			}
			touch(t, leaf)
			n.restored("one")
		})
	}
}

// atOnce is how many tasks wait at a time: each takes a process.
func atOnce() int {
	if os.Getenv("BULLPEN_LONG") != "" {
		return 100
	}
	return 20
}
