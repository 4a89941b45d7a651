package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// telling is a pool whose workers tell a word.
func telling(t *testing.T, name, word, more string) string {
	t.Helper()
	return mine(t, name, fmt.Sprintf("env: {TELL: %s}, %s", word, more))
}

func TestReload(t *testing.T) {
	t.Parallel()
	n := start(t, telling(t, "one", "old", "workers: {min: 1, max: 2}"), telling(t, "same", "same", "workers: {min: 1, max: 1}"), telling(t, "gone", "gone", ""))
	same, err := n.find("same")
	if err != nil {
		t.Fatal(err)
	}
	before := same.generation()
	flag := filepath.Join(t.TempDir(), "go")
	running := n.background("/v1/pools/one/jobs?task=hold&wait=1m", flag)
	eventually(t, "a job runs", func() bool { return exists(flag + ".begun") })

	n.write(telling(t, "one", "new", "workers: {min: 1, max: 2}"), telling(t, "same", "same", "workers: {min: 0, max: 3}, jobs: 2"), telling(t, "fresh", "fresh", ""))
	a := n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
	for _, key := range []string{"pools.one", "pools.gone", "pools.fresh", "pools.same.workers.max"} {
		if !strings.Contains(a.body, key) {
			t.Errorf("%s is not among what has changed: %s", key, a.body)
		}
	}
	for pool, word := range map[string]string{"one": "new", "same": "same", "fresh": "fresh"} {
		for _, way := range []string{"run?task=tell", "jobs?task=tell&wait=1m"} {
			if a := n.want(http.StatusOK, http.MethodPost, "/v1/pools/"+pool+"/"+way, ""); a.body != word {
				t.Errorf("%s of %s: %q, want %q", way, pool, a.body, word)
			}
		}
	}
	n.want(http.StatusNotFound, http.MethodPost, "/v1/pools/gone/jobs", "x")
	if same.generation() != before {
		t.Error("a pool whose size alone has changed got other workers")
	}
	if p := n.shown("same"); p.Min != 0 || p.Max != 3 {
		t.Errorf("its size is %d..%d, want 0..3", p.Min, p.Max)
	}
	touch(t, flag)
	if a := running.wait(); a.body != "held" {
		t.Errorf("the job that ran while its workers were replaced: %d %s", a.status, a.body)
	}
	n.want(http.StatusOK, http.MethodGet, "/metrics", "")
}

// TestReloadOfWhatWorkTakes shows that what only Work needs to know reaches it, and
// leaves the workers as they are.
func TestReloadOfWhatWorkTakes(t *testing.T) {
	t.Parallel()
	settings := []string{"retry: {bury: old}", "retry: {bury: new}", "retry: {bury: new}, groups: {concurrency: 1}", "retry: {bury: new}, groups: {concurrency: 1}, jobs: 2"}
	n := start(t, mine(t, "p", settings[0]))
	p, err := n.find("p")
	if err != nil {
		t.Fatal(err)
	}
	g := p.generation()
	for _, s := range settings[1:] {
		n.write(mine(t, "p", s))
		n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
		eventually(t, "another call of Work begins", func() bool { return len(g.restart) == 0 })
		if p.generation() != g {
			t.Errorf("%s: the pool got other workers", s)
		}
	}
	if c := g.workConfig(); c.Bury != "new" || c.Group.Concurrency != 1 {
		t.Errorf("Work received %+v", c)
	}
	eventually(t, "the limits of groups reach Work", func() bool {
		limits, err := n.queue.GroupDefaults(t.Context(), "p")
		return err == nil && limits.Concurrency == 1
	})
	if n := g.limiter.places(); n != 2 {
		t.Errorf("there are places for %d jobs, want 2", n)
	}
}

// TestReloadFaulty shows that a configuration that does not work changes nothing.
func TestReloadFaulty(t *testing.T) {
	t.Parallel()
	n := start(t, telling(t, "one", "old", "workers: {min: 1, max: 1}"), telling(t, "two", "old", "workers: {min: 1, max: 1}"))
	for name, c := range map[string]struct {
		pools []string
		says  string
	}{
		"unknown key":   {[]string{telling(t, "one", "new", "workrs: 1")}, "workrs"},
		"dying workers": {[]string{telling(t, "one", "new", ""), "  two: {command: [sh, -c, 'echo no such thing >&2; exit 3'], workers: {start_timeout: 5s}}\n"}, "no such thing"},
		"with a resize": {[]string{telling(t, "one", "old", "workers: {min: 0, max: 5}"), "  two: {command: [sh, -c, 'exit 3'], workers: {start_timeout: 5s}}\n"}, "exit"},
	} {
		n.write(c.pools...)
		a := n.want(http.StatusUnprocessableEntity, http.MethodPost, "/v1/reload", "")
		if !strings.Contains(a.body, c.says) {
			t.Errorf("%s: %s, want it to say %q", name, a.body, c.says)
		}
		for _, pool := range []string{"one", "two"} {
			if a := n.want(http.StatusOK, http.MethodPost, "/v1/pools/"+pool+"/run?task=tell", ""); a.body != "old" {
				t.Errorf("%s: pool %s says %q", name, pool, a.body)
			}
			if p := n.shown(pool); p.Min != 1 || p.Max != 1 {
				t.Errorf("%s: pool %s has %d..%d workers", name, pool, p.Min, p.Max)
			}
		}
		if a := n.want(http.StatusOK, http.MethodGet, "/metrics", ""); !strings.Contains(a.body, "bullpen_config_last_reload_successful 0") {
			t.Errorf("%s: the metrics do not say that the reload failed", name)
		}
	}
	n.write(telling(t, "one", "new", ""))
	n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
	if a := n.want(http.StatusOK, http.MethodGet, "/metrics", ""); !strings.Contains(a.body, "bullpen_config_last_reload_successful 1") {
		t.Error("the metrics do not say that the reload succeeded")
	}
}

// TestReloadWithinBudget replaces workers where there is no room for both.
func TestReloadWithinBudget(t *testing.T) {
	t.Parallel()
	const budget = "budget: {workers: 2}\n"
	n := open(t, telling(t, "one", "old", "workers: {min: 2, max: 2}"), budget)
	n.begin()
	<-n.Ready()
	flag := filepath.Join(t.TempDir(), "go")
	running := n.background("/v1/pools/one/jobs?task=hold&wait=1m", flag)
	eventually(t, "a job runs", func() bool { return exists(flag + ".begun") })
	n.write("  one: {command: [sh, -c, 'exit 3'], workers: {min: 2, max: 2}}\n", budget)
	n.want(http.StatusUnprocessableEntity, http.MethodPost, "/v1/reload", "")
	if p := n.shown("one"); p.Min != 2 || p.Max != 2 {
		t.Errorf("after a reload that failed it has %d..%d workers", p.Min, p.Max)
	}
	n.write(telling(t, "one", "new", "workers: {min: 1, max: 2}"), budget)
	n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
	if a := n.want(http.StatusOK, http.MethodPost, "/v1/pools/one/run?task=tell", ""); a.body != "new" {
		t.Errorf("it says %q", a.body)
	}
	touch(t, flag)
	if a := running.wait(); a.body != "held" {
		t.Errorf("the job that ran: %d %s", a.status, a.body)
	}
}

// TestReloadUnderLoad replaces workers again and again while jobs and ephemeral
// tasks run: none is lost, none runs twice.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	n := start(t, telling(t, "one", "r0", "workers: {min: 1, max: 2}"))
	file := filepath.Join(t.TempDir(), "marks")
	payload, err := json.Marshal(marked{File: file, Run: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	stop := make(chan struct{})
	var mu sync.Mutex
	ids := map[string]bool{} // guarded by mu
	for i := range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				path := []string{"/v1/pools/one/jobs?task=mark&wait=1m", "/v1/pools/one/run?task=mark"}[i%2]
				a, err := n.send(t.Context(), http.MethodPost, path, string(payload))
				if err != nil || a.status != http.StatusOK {
					t.Errorf("%v %d %s", err, a.status, a.body)
					return
				}
				mu.Lock()
				ids[a.header.Get("Bullpen-Job")+a.header.Get("Bullpen-Task")] = true
				mu.Unlock()
			}
		})
	}
	for i := range 5 {
		n.write(telling(t, "one", fmt.Sprint("r", i+1), "workers: {min: 1, max: 2}"))
		n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
	}
	close(stop)
	all.Wait()
	runs := readMarks(t, file)
	for id := range ids {
		if len(runs[id]) != 1 {
			t.Errorf("task %s has run %d times", id, len(runs[id]))
		}
	}
	if len(ids) < 10 {
		t.Errorf("only %d tasks ran", len(ids))
	}
}

// readMarks returns the process ids of the runs that "mark" has noted, by task.
func readMarks(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	runs := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			t.Fatalf("a torn line: %q", line)
		}
		runs[f[0]] = append(runs[f[0]], f[2])
	}
	return runs
}
