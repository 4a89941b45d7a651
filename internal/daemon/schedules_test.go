package daemon

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bullpen-run/bullpen/internal/daemon/api"
	"github.com/bullpen-run/bullpen/job"
)

// planned gives the schedules of a daemon by their names.
func (n *node) planned() map[string]job.ScheduleInfo {
	n.t.Helper()
	var all api.Schedules
	if err := json.Unmarshal([]byte(n.want(http.StatusOK, http.MethodGet, "/v1/schedules", "").body), &all); err != nil {
		n.t.Fatal(err)
	}
	by := make(map[string]job.ScheduleInfo)
	for _, s := range all.Schedules {
		by[s.Name] = s
	}
	return by
}

// TestSchedules has schedules in the configuration: they fire, a reload changes
// them, and callers do not.
func TestSchedules(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", ""), "schedules:\n  fast: {pool: one, every: 100ms, payload: hello}\n  slow: {pool: one, cron: '@yearly', task: tell}\n")
	eventually(t, "it fires", func() bool { return n.planned()["fast"].Fired >= 2 })
	by := n.planned()
	fast, slow := by["fast"], by["slow"]
	if fast.Origin != "config" || fast.Job.Name != "echo" || slow.Job.Name != "tell" {
		t.Errorf("they are %+v %+v and %+v", fast, fast.Job, slow.Job)
	}
	if a := n.want(http.StatusOK, http.MethodGet, "/v1/jobs/"+fast.LastJob+"/result?wait=20s", ""); a.body != "hello" {
		t.Errorf("its job gives %q", a.body)
	}
	if a := n.want(http.StatusConflict, http.MethodDelete, "/v1/schedules/fast", ""); cause(t, a) != "managed" {
		t.Errorf("removing it gives %s", a.body)
	}
	n.want(http.StatusOK, http.MethodPut, "/v1/schedules/mine", `{"pool":"one","every":3600}`)
	n.want(http.StatusOK, http.MethodPost, "/v1/schedules/slow/pause", "")

	n.write(mine(t, "one", ""), "schedules:\n  slow: {pool: one, cron: '@daily'}\n  new: {pool: one, every: 1h}\n")
	a := n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
	for _, key := range []string{"schedules.fast", "schedules.new", "schedules.slow.cron"} {
		if !strings.Contains(a.body, key) {
			t.Errorf("%s is not among what has changed: %s", key, a.body)
		}
	}
	by = n.planned()
	if s := by["slow"]; len(by) != 3 || s.Cron != "@daily" || !s.Paused || by["mine"].Origin != "" || by["new"].Every != time.Hour {
		t.Errorf("they are %+v", by)
	}

	n.write(mine(t, "one", ""), "schedules: {}\n")
	n.want(http.StatusOK, http.MethodPost, "/v1/reload", "")
	by = n.planned()
	if _, there := by["mine"]; !there || len(by) != 1 {
		t.Errorf("they are %+v", by)
	}
}

// TestReadyWithSchedules shows that a daemon is ready only when the schedules of its
// configuration are stored.
func TestReadyWithSchedules(t *testing.T) {
	t.Parallel()
	n := open(t, mine(t, "one", ""), "schedules:\n  weekly: {pool: one, cron: '@weekly'}\n")
	n.planning.Lock() // nothing is stored meanwhile
	stored := sync.OnceFunc(n.planning.Unlock)
	n.begin()
	t.Cleanup(stored) // comes before the end of n, which waits for the lock
	var before checks
	eventually(t, "all but the schedules is ready", func() bool {
		before = n.readiness()
		faults := slices.DeleteFunc(slices.Clone(before), func(c check) bool { return c.good })
		return len(faults) == 0 || len(faults) == 1 && faults[0].name == "schedules"
	})
	if before.ok() {
		t.Errorf("it is ready before its schedules are stored:\n%s", before)
	}
	if a := n.want(http.StatusServiceUnavailable, http.MethodGet, "/readyz", ""); !strings.Contains(a.body, "FAIL schedules: the schedules of the configuration are not stored yet") {
		t.Errorf("readyz says %s", a.body)
	}
	stored()
	n.awaitReady()
	n.want(http.StatusOK, http.MethodGet, "/readyz", "")
	if _, there := n.planned()["weekly"]; !there {
		t.Error("it is ready, and its schedule is not there")
	}
}

// TestSchedulesAreCompleted has schedules of the configuration whose jobs leave to the
// pool what their burial is and how their group is found.
func TestSchedulesAreCompleted(t *testing.T) {
	t.Parallel()
	n := start(t, mine(t, "one", "retry: {bury: undertaker}, groups: {meta: tenant}"), "schedules:\n  weekly: {pool: one, cron: '@weekly', meta: {tenant: acme}}\n")
	j := n.planned()["weekly"].Job
	if j.Queue == "" {
		t.Fatal("there is no schedule with that name, or it has no job")
	}
	if j.Bury != "undertaker" || j.Group != "acme" {
		t.Errorf("its job has the burial %q and the group %q, want undertaker and acme", j.Bury, j.Group)
	}
}
